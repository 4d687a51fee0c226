#include <gtest/gtest.h>

#include "apps/drill/integrity_report.h"
#include "apps/drill/target.h"

namespace bulkhead::apps {
namespace {

constexpr const char* kReport = R"({"mode":"abort","pools":[
  {"name":"prefill","mode":"abort","checks":4,"mismatches":{"tag":1,"books":0},
   "quarantined_pages":[3,9],"events":[{"number":1,"kind":"tag","phase":"before"}]},
  {"name":"decode","mode":"abort","mismatches":{"tag":0,"books":0},"quarantined_pages":[],
   "events":[]}],
  "faults":{"enabled":true,"waiting":1,"done":[{"fault":"tag_flip"}]}})";

TEST(Report, IsReadWhole) {
  const auto report = parse_integrity_report(kReport);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->mode, "abort");
  EXPECT_TRUE(report->injects);
  EXPECT_EQ(report->waiting, 1u);
  EXPECT_EQ(report->done, 1u);
  ASSERT_EQ(report->pools.size(), 2u);
  EXPECT_EQ(report->pools[0].quarantined, 2u);
  EXPECT_EQ(report->pools[1].name, "decode");
}

TEST(Report, OfAnotherFormIsAnError) {
  for (const char* text : {"", "[]", "{}", R"({"pools":[]})", R"({"pools":{},"faults":{}})"}) {
    EXPECT_FALSE(parse_integrity_report(text).ok()) << text;
  }
}

TEST(Report, WhatIsNewIsCountedByKind) {
  const auto before = parse_integrity_report(kReport);
  IntegrityReport after = *before;
  EXPECT_TRUE(noticed_since(*before, after).empty());
  EXPECT_EQ(to_text({}), "nothing");
  after.pools[0].mismatches["tag"] = 3;
  after.pools[0].events.push_back({2, "tag", "before"});
  after.pools[0].events.push_back({3, "tag", "after"});
  after.pools[1].mismatches["books"] = 1;
  after.pools[1].events.push_back({1, "books", "books"});
  const NoticedByKind noticed = noticed_since(*before, after);
  EXPECT_EQ(to_text(noticed), "books 1x, tag after/before 2x");
  NoticedByKind sum = noticed;
  add(sum, noticed);
  EXPECT_EQ(sum.at("tag").times, 4u);
}

TEST(Gauges, AreAddedOverPools) {
  const auto gauges = parse_gauges(
      "# HELP x y\n"
      "vllm:num_requests_running{model_name=\"t\"} 2\n"
      "vllm:num_requests_waiting{model_name=\"t\"} 1\n"
      "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"8\"} 1\n"
      "bulkhead_kv_pages{pool=\"prefill\",state=\"free\"} 5\n"
      "bulkhead_kv_pages{pool=\"prefill\",state=\"cached\"} 2\n"
      "bulkhead_kv_pages{pool=\"decode\",state=\"used\"} 4\n"
      "bulkhead_kv_integrity_quarantined_pages{pool=\"decode\"} 1\n");
  ASSERT_TRUE(gauges.ok()) << gauges.error().message;
  EXPECT_EQ(gauges->requests, 3u);
  EXPECT_EQ(gauges->used, 4u);
  EXPECT_EQ(gauges->at_rest, 8u);
  EXPECT_EQ(gauges->page_tokens, 16u);
}

TEST(Gauges, ThatAreMissingAreAnError) {
  EXPECT_FALSE(parse_gauges("").ok());
  EXPECT_FALSE(parse_gauges("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n").ok());
}

TEST(Models, TellNameAndVocabulary) {
  const auto facts = parse_models(R"({"data":[{"id":"tiny","meta":{"n_vocab":768}}]})");
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->name, "tiny");
  EXPECT_EQ(facts->vocabulary, 768);
  EXPECT_FALSE(parse_models(R"({"data":[]})").ok());
  EXPECT_FALSE(parse_models("no").ok());
}

}  // namespace
}  // namespace bulkhead::apps
