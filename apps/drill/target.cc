#include "apps/drill/target.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <utility>

#include "apps/drill/json_members.h"
#include "base/json_writer.h"

namespace bulkhead::apps {
namespace {

namespace json = boost::json;

constexpr std::chrono::seconds kAskTimeout{60};

struct Sample {
  std::string_view name;
  std::string_view labels;  // with their braces
  double value = 0.0;
};

// A line of the text format of metrics; nothing for comments and what is none.
bool parse_sample(std::string_view line, Sample& out) {
  const size_t space = line.rfind(' ');
  if (line.empty() || line.front() == '#' || space == std::string_view::npos) return false;
  const std::string_view digits = line.substr(space + 1);
  if (std::from_chars(digits.data(), digits.data() + digits.size(), out.value).ec != std::errc()) {
    return false;
  }
  const std::string_view series = line.substr(0, space);
  const size_t brace = std::min(series.find('{'), series.size());
  out.name = series.substr(0, brace);
  out.labels = series.substr(brace);
  return true;
}

// The value of a label; empty: there is none.
std::string_view label(std::string_view labels, std::string_view name) {
  const std::string start = fmt::format("{}=\"", name);
  const size_t at = labels.find(start);
  if (at == std::string_view::npos) return {};
  labels.remove_prefix(at + start.size());
  return labels.substr(0, labels.find('"'));
}

uint64_t whole(double value) { return value > 0 ? static_cast<uint64_t>(value) : 0; }

// Which of the gauges that are needed were there.
struct Found {
  bool running = false, waiting = false, pages = false, quarantined = false, format = false;
};

void take(const Sample& sample, ServerGauges& gauges, Found& found) {
  if (sample.name == "vllm:num_requests_running") {
    found.running = true;
    gauges.requests += whole(sample.value);
  } else if (sample.name == "vllm:num_requests_waiting") {
    found.waiting = true;
    gauges.requests += whole(sample.value);
  } else if (sample.name == "bulkhead_kv_pages") {
    found.pages = true;
    (label(sample.labels, "state") == "used" ? gauges.used : gauges.at_rest) += whole(sample.value);
  } else if (sample.name == "bulkhead_kv_integrity_quarantined_pages") {
    found.quarantined = true;
    gauges.at_rest += whole(sample.value);
  } else if (sample.name == "vllm:cache_config_info") {
    const std::string_view size = label(sample.labels, "block_size");
    uint64_t tokens = 0;
    const auto end = std::from_chars(size.data(), size.data() + size.size(), tokens);
    found.format = found.format || (end.ec == std::errc() && tokens > 0);
    gauges.page_tokens = std::max(gauges.page_tokens, tokens);
  }
}

}  // namespace

std::vector<http::Header> Target::headers(const std::string& key) const {
  std::vector<http::Header> all = {{"Content-Type", "application/json"}};
  if (!key.empty()) all.push_back({"Authorization", "Bearer " + key});
  return all;
}

const std::string& Target::key_of_request(size_t index) const {
  return api_keys.empty() ? admin_key : api_keys[index % api_keys.size()];
}

base::Result<ServerGauges> parse_gauges(std::string_view metrics) {
  ServerGauges gauges;
  Found found;
  while (!metrics.empty()) {
    const size_t end = std::min(metrics.find('\n'), metrics.size());
    Sample sample;
    if (parse_sample(metrics.substr(0, end), sample)) take(sample, gauges, found);
    metrics.remove_prefix(std::min(end + 1, metrics.size()));
  }
  if (found.running && found.waiting && found.pages && found.quarantined && found.format) {
    return gauges;
  }
  return base::corrupt("/metrics does not tell of requests and cache pages");
}

base::Result<ModelFacts> parse_models(std::string_view body) {
  boost::system::error_code bad;
  const json::value value = json::parse(body, bad);
  for (const json::value& entry : elements_of(bad ? nullptr : member(&value, "data"))) {
    ModelFacts facts;
    facts.name = text_of(member(&entry, "id"));
    facts.vocabulary = static_cast<int64_t>(count_of(member(member(&entry, "meta"), "n_vocab")));
    if (!facts.name.empty() && facts.vocabulary > 0) return facts;
  }
  return base::corrupt("/v1/models does not tell a model and the size of its vocabulary");
}

base::Result<std::string> Administrator::ask(const std::string& method, const std::string& path,
                                             const std::string& body) const {
  http::Client client(target_.host, target_.port, kAskTimeout);
  BH_ASSIGN(http::ClientResponse response,
            client.send(method, path, target_.headers(target_.admin_key), body));
  if (response.status == 200) return std::move(response.body);
  boost::system::error_code bad;
  const json::value value = json::parse(response.body, bad);
  const std::string said =
      bad ? std::string() : text_of(member(member(&value, "error"), "message"));
  const bool key = response.status == 401 || response.status == 403;
  return base::Error{key ? base::ErrorCode::kInvalidArgument : base::ErrorCode::kUnsupported,
                     fmt::format("{} {} was answered {}: {}", method, path, response.status,
                                 said.empty() ? response.body.substr(0, 200) : said),
                     {}};
}

base::Result<IntegrityReport> Administrator::integrity() const {
  BH_ASSIGN(const std::string body, ask("GET", "/v1/integrity", {}));
  return parse_integrity_report(body);
}

base::Result<ServerGauges> Administrator::gauges() const {
  BH_ASSIGN(const std::string body, ask("GET", "/metrics", {}));
  return parse_gauges(body);
}

base::Result<ModelFacts> Administrator::model() const {
  BH_ASSIGN(const std::string body, ask("GET", "/v1/models", {}));
  return parse_models(body);
}

base::Status Administrator::order(std::string_view fault, std::string_view pool) const {
  BH_TRY(ask("POST", "/v1/integrity/faults", order_body(fault, pool)));
  return {};
}

base::Status Administrator::flush_cache() const {
  BH_TRY(ask("POST", "/flush_cache", {}));
  return {};
}

std::string order_body(std::string_view fault, std::string_view pool) {
  base::JsonWriter json;
  json.begin_object();
  json.key("fault").value(fault);
  json.key("pool").value(pool);
  json.end_object();
  return std::move(json).take();
}

}  // namespace bulkhead::apps
