#include "model/write/quantise.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/json_writer.h"
#include "base/units.h"
#include "model/write/config_writer.h"
#include "model/write/error_report.h"
#include "model/write/progress_file.h"
#include "model/write/tensor_writer.h"

namespace bulkhead::model::write {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kReportName = "quantize-report.json";

base::Error io_error(const fs::path& path, std::string_view what) {
  return base::Error{base::ErrorCode::kIo, fmt::format("{}: {}", path.string(), what), {}};
}

// One run writes a directory at a time.
class DirectoryLock {
 public:
  static base::Result<DirectoryLock> take(const fs::path& directory) {
    DirectoryLock lock;
    lock.file_ = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock.file_ < 0) return io_error(directory, std::strerror(errno));
    if (flock(lock.file_, LOCK_EX | LOCK_NB) == 0) return lock;
    return base::Error{base::ErrorCode::kUnavailable,
                       fmt::format("{}: another run is writing there", directory.string()),
                       {}};
  }
  DirectoryLock(DirectoryLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock() {
    if (file_ >= 0) close(file_);
  }

 private:
  DirectoryLock() = default;
  int file_ = -1;
};

// The progress of this plan that the directory holds; none where it is empty or not there.
base::Result<std::optional<Progress>> matching_progress(const WritePlan& plan,
                                                        const fs::path& directory) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (!fs::exists(status)) return std::optional<Progress>{};
  if (!fs::is_directory(status)) return io_error(directory, "is no directory");
  // A run that ended before its first word leaves a file that has no name yet.
  bool empty = true;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    empty = empty && entry.path().extension() == ".partial";
  }
  if (error) return io_error(directory, error.message());
  if (empty) return std::optional<Progress>{};
  BH_ASSIGN(std::optional<Progress> found, read_progress(directory));
  if (!found) {
    return base::invalid_argument(
        "out", fmt::format("{}: is not empty and holds no unfinished run: give a new directory",
                           directory.string()));
  }
  if (found->digest != plan.digest) {
    return base::invalid_argument(
        "out", fmt::format("{}: holds an unfinished run of recipe \"{}\" with another source, "
                           "recipe or option than this one: remove it, or give a new directory",
                           directory.string(), found->recipe));
  }
  return found;
}

// How many of the files that the progress speaks of are there in full.
base::Result<size_t> finished_shards(const WritePlan& plan, const Progress& progress,
                                     const fs::path& directory) {
  size_t jobs = 0;
  if (progress.shards > plan.shards.size()) {
    return base::corrupt(fmt::format("{}: speaks of {} files, there are {}: remove the directory",
                                     kProgressName, progress.shards, plan.shards.size()));
  }
  for (size_t i = 0; i < progress.shards; ++i) {
    std::error_code error;
    const fs::path path = directory / plan.shards[i].file;
    const uint64_t size = fs::file_size(path, error);
    if (error || size != plan.shards[i].bytes) {
      return base::corrupt(
          fmt::format("{}: is not as the unfinished run left it: remove the "
                      "directory and start anew",
                      path.string()));
    }
    jobs += plan.shards[i].jobs;
  }
  if (progress.errors.size() != jobs) {
    return base::corrupt(fmt::format("{}: speaks of {} tensors, {} are there: remove the directory",
                                     kProgressName, progress.errors.size(), jobs));
  }
  return progress.shards;
}

base::Status check_space(const fs::path& directory, uint64_t needed) {
  std::error_code error;
  const fs::space_info space = fs::space(directory, error);
  if (error || space.available >= needed) return {};
  return base::Error{base::ErrorCode::kResourceExhausted,
                     fmt::format("{}: {} are to be written, {} are free", directory.string(),
                                 base::format_bytes(needed), base::format_bytes(space.available)),
                     {}};
}

std::string index_text(const WritePlan& plan) {
  base::JsonWriter json;
  json.begin_object();
  json.key("metadata").begin_object();
  json.key("total_size").value(plan.tensor_bytes()).end_object();
  json.key("weight_map").begin_object();
  for (const ShardPlan& shard : plan.shards) {
    for (const StoredTensor& tensor : shard.tensors) json.key(tensor.name).value(shard.file);
  }
  json.end_object().end_object();
  return std::move(json).take() + "\n";
}

class Run {
 public:
  // `config` is the text of config.json.
  Run(const Checkpoint& checkpoint, const WritePlan& plan, const SideFiles& side,
      const std::string& config, const fs::path& directory, device::ThreadPool& pool,
      const ProgressCallback& progress)
      : plan_(plan),
        side_(side),
        config_(config),
        directory_(directory),
        progress_(progress),
        writer_(checkpoint, pool, plan.options.rule) {
    counts_.bytes_total = plan.tensor_bytes();
    counts_.tensors_total = plan.jobs.size();
  }

  base::Result<std::vector<TensorError>> run() {
    BH_TRY(take_up());
    for (size_t i = state_.shards; i < plan_.shards.size(); ++i) BH_TRY(write_shard(i));
    BH_TRY(write_side_files());
    return std::move(state_.errors);
  }

 private:
  base::Status take_up() {
    BH_ASSIGN(std::optional<Progress> found, matching_progress(plan_, directory_));
    if (found) {
      BH_TRY(finished_shards(plan_, *found, directory_));
      state_ = std::move(*found);
    } else {
      state_.digest = plan_.digest;
      state_.recipe = plan_.options.recipe.text();
      BH_TRY(write_progress(directory_, state_));
    }
    uint64_t left = plan_.file_bytes();
    for (size_t i = 0; i < state_.shards; ++i) {
      left -= plan_.shards[i].bytes;
      for (const StoredTensor& tensor : plan_.shards[i].tensors) {
        counts_.bytes_done += tensor.bytes();
      }
    }
    counts_.bytes_found = counts_.bytes_done;
    counts_.tensors_done = state_.errors.size();
    return check_space(directory_, left);
  }

  base::Status write_shard(size_t number) {
    const ShardPlan& shard = plan_.shards[number];
    BH_ASSIGN(auto file, SafetensorsWriter::create(directory_ / shard.file, shard.tensors));
    std::vector<TensorError> errors;
    errors.reserve(shard.jobs);
    size_t part = 0;
    for (size_t i = shard.first_job; i < shard.first_job + shard.jobs; ++i) {
      const TensorJob& job = plan_.jobs[i];
      BH_ASSIGN(const TensorError error, writer_.write(job, file, part));
      errors.push_back(error);
      part += job.parts.size();
      BH_TRY(report(job));
    }
    BH_TRY(file.finish());
    state_.errors.insert(state_.errors.end(), errors.begin(), errors.end());
    state_.shards = number + 1;
    return write_progress(directory_, state_);
  }

  base::Status report(const TensorJob& job) {
    for (const StoredTensor& part : job.parts) counts_.bytes_done += part.bytes();
    counts_.tensors_done += 1;
    if (!progress_ || progress_(counts_)) return {};
    return base::Error{
        base::ErrorCode::kCancelled, "stopped; the same command goes on where this one ended", {}};
  }

  base::Status write_side_files() {
    for (const SideFile& file : side_.files) {
      BH_TRY(write_file_aside(directory_ / file.name, file.bytes));
    }
    if (plan_.shards.size() > 1) {
      BH_TRY(write_file_aside(directory_ / kIndexName, index_text(plan_)));
    }
    BH_TRY(write_file_aside(directory_ / kReportName, report_json(plan_, state_.errors)));
    BH_TRY(write_file_aside(directory_ / kConfigName, config_));
    std::error_code error;
    fs::remove(directory_ / kProgressName, error);
    return error ? base::Status(io_error(directory_ / kProgressName, error.message()))
                 : base::Status{};
  }

  const WritePlan& plan_;
  const SideFiles& side_;
  const std::string& config_;
  const fs::path& directory_;
  const ProgressCallback& progress_;
  TensorWriter writer_;
  QuantiseProgress counts_;
  Progress state_;
};

}  // namespace

base::Result<std::vector<TensorError>> quantise(const Checkpoint& checkpoint, const WritePlan& plan,
                                                const SideFiles& side, const fs::path& directory,
                                                device::ThreadPool& pool,
                                                const ProgressCallback& progress) {
  // What is wrong with it is said before hours of work.
  BH_ASSIGN(const std::string config, quantised_config(side.config, plan));
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return io_error(directory, error.message());
  BH_ASSIGN(const DirectoryLock lock, DirectoryLock::take(directory));
  return Run(checkpoint, plan, side, config, directory, pool, progress).run();
}

base::Result<uint64_t> bytes_left(const WritePlan& plan, const fs::path& directory) {
  BH_ASSIGN(const std::optional<Progress> found, matching_progress(plan, directory));
  uint64_t left = plan.file_bytes();
  if (!found) return left;
  BH_ASSIGN(const size_t shards, finished_shards(plan, *found, directory));
  for (size_t i = 0; i < shards; ++i) left -= plan.shards[i].bytes;
  return left;
}

}  // namespace bulkhead::model::write
