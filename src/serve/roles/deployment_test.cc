// What a deployment of several processes may be told, and what is refused before anything starts.
#include "serve/roles/deployment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace bulkhead::serve::roles {
namespace {

using ::testing::HasSubstr;

ServeOptions options_of(Role role) {
  ServeOptions options;
  options.roles.role = role;
  options.roles.key_file = "deployment.key";
  if (role != Role::kGateway) return options;
  options.roles.prefill_workers = {"127.0.0.1:7001", "prefill-1.example:7001"};
  options.roles.decode_workers = {"127.0.0.1:7002"};
  return options;
}

std::string error_of(const ServeOptions& options) {
  const base::Status status = check_roles(options);
  return status.ok() ? "" : status.error().message;
}

TEST(CheckRoles, WhatADeploymentNeedsIsEnough) {
  for (const Role role : {Role::kGateway, Role::kPrefill, Role::kDecode}) {
    EXPECT_EQ(error_of(options_of(role)), "");
    ServeOptions options = options_of(role);
    options.roles.key_file.clear();
    EXPECT_THAT(error_of(options), HasSubstr("--worker-key-file"));
  }
}

// One file names everybody, and every process reads it.
TEST(CheckRoles, AWorkerMayKnowWhoElseThereIs) {
  for (const Role role : {Role::kPrefill, Role::kDecode}) {
    ServeOptions options = options_of(role);
    options.roles.prefill_workers = {"127.0.0.1:7001"};
    options.roles.decode_workers = {"127.0.0.1:7002"};
    EXPECT_EQ(error_of(options), "");
  }
  ServeOptions options;
  options.roles.prefill_workers = {"127.0.0.1:7001"};
  EXPECT_THAT(error_of(options), HasSubstr("--role gateway"));
}

TEST(CheckRoles, AddressesThatAreNoneOrAreThereTwiceAreRefused) {
  for (const char* bad :
       {"", "127.0.0.1", "127.0.0.1:", ":7003", "127.0.0.1:0", "host:99999", "http://host:7003"}) {
    ServeOptions options = options_of(Role::kGateway);
    options.roles.decode_workers.emplace_back(bad);
    EXPECT_THAT(error_of(options), HasSubstr("--decode-workers")) << bad;
  }
  ServeOptions options = options_of(Role::kGateway);
  options.roles.prefill_workers.emplace_back("127.0.0.1:7001");
  EXPECT_THAT(error_of(options), HasSubstr("127.0.0.1:7001 is named twice"));
  options = options_of(Role::kGateway);
  options.roles.decode_workers.emplace_back("127.0.0.1:7001");
  EXPECT_THAT(error_of(options), HasSubstr("named twice")) << "in two roles";
}

TEST(ResolveMembers, GivesNumbersAndTellsTwoTextsOfOneAddress) {
  RoleOptions roles;
  roles.prefill_workers = {"127.1:7001"};
  roles.decode_workers = {"[::1]:7001"};
  const auto members = resolve_members(roles);
  ASSERT_TRUE(members.ok()) << members.error().message;
  EXPECT_EQ(members->prefill_workers.front(), "127.0.0.1:7001");
  EXPECT_EQ(members->decode_workers.front(), "[::1]:7001");
  roles.decode_workers = {"127.0.0.1:7001"};
  EXPECT_THAT(resolve_members(roles).error().message, HasSubstr("--decode-workers"));
  EXPECT_THAT(resolve_members(roles).error().message, HasSubstr("named twice"));
}

TEST(CheckRoles, AWorkerListensWhereItCanBeReached) {
  for (const Role role : {Role::kPrefill, Role::kDecode}) {
    ServeOptions options = options_of(role);
    options.roles.listen = "7001";
    EXPECT_THAT(error_of(options), HasSubstr("--listen"));
  }
  // Where pages go is told from one worker to another; where a gateway connects is not.
  for (const char* wildcard : {"0.0.0.0:7002", "[::]:7002"}) {
    ServeOptions options = options_of(Role::kDecode);
    options.roles.listen = wildcard;
    EXPECT_THAT(error_of(options), HasSubstr("nobody's address"));
    options.roles.role = Role::kPrefill;
    EXPECT_EQ(error_of(options), "");
  }
}

class WorkerKey : public ::testing::Test {
 protected:
  ~WorkerKey() override { std::filesystem::remove(path_); }

  std::string error_of(const std::string& text,
                       std::filesystem::perms more = std::filesystem::perms::none) {
    using std::filesystem::perms;
    std::ofstream(path_, std::ios::binary) << text;
    std::filesystem::permissions(path_, perms::owner_read | perms::owner_write | more);
    const auto key = read_worker_key(path_);
    return key.ok() ? "" : key.error().message;
  }

  const std::string path_ = std::string(::testing::TempDir()) + "bulkhead-worker-key-" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(WorkerKey, IsOneSecretOfItsOwner) {
  EXPECT_EQ(error_of("0123456789abcdef\n"), "");
  EXPECT_EQ(*read_worker_key(path_), "0123456789abcdef");
  using std::filesystem::perms;
  for (const perms others : {perms::group_read, perms::others_read}) {
    EXPECT_THAT(error_of("0123456789abcdef\n", others), HasSubstr("read by others"));
  }
}

TEST_F(WorkerKey, ErrorsNameTheOptionAndNeverTheKey) {
  EXPECT_THAT(error_of("0123456789abcde\n"), HasSubstr("a key of 15 bytes, at least 16"));
  EXPECT_EQ(error_of("0123456789abcde\n").find("0123"), std::string::npos);
  EXPECT_THAT(error_of("0123456789abcdef\nfedcba9876543210\n"), HasSubstr("2 keys"));
  for (const char* text : {"", "two words that are long\n", "short\n"}) {
    EXPECT_THAT(error_of(text), HasSubstr("--worker-key-file")) << text;
  }
  EXPECT_THAT(read_worker_key("/nowhere").error().message, HasSubstr("--worker-key-file"));
}

}  // namespace
}  // namespace bulkhead::serve::roles
