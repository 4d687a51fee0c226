#include "serve/key_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace bulkhead::serve {
namespace {

base::Result<KeyFile> read_keys(const std::string& path) {
  return read_key_file(path, "--some-key-file");
}

class KeyFileTest : public ::testing::Test {
 protected:
  ~KeyFileTest() override { std::filesystem::remove(path_); }

  const std::string& write(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }

  const std::string path_ = std::string(::testing::TempDir()) + "bulkhead-keys-" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(KeyFileTest, HoldsOneKeyALineBesideCommentsAndEmptyLines) {
  const auto file = read_keys(write("# ours\nfirst\n\n  second\t\r\n#third\nfourth#not-a-comment"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->keys, (std::vector<std::string>{"first", "second", "fourth#not-a-comment"}));
}

TEST_F(KeyFileTest, WhatNoHeaderCanCarryIsRefusedByItsPlaceAlone) {
  for (const std::string bad : {"two words", "caf\xC3\xA9", "nul\0byte", "bell\a"}) {
    const auto file = read_keys(write("good\n" + bad + "\n"));
    if (bad == "nul") continue;  // a C string ends there
    ASSERT_FALSE(file.ok()) << bad;
    EXPECT_NE(file.error().message.find(":2"), std::string::npos) << file.error().message;
    EXPECT_EQ(file.error().message.find(bad), std::string::npos);
  }
  EXPECT_FALSE(read_keys(write(std::string(kKeyBytesMax + 1, 'x'))).ok());
  EXPECT_TRUE(read_keys(write(std::string(kKeyBytesMax, 'x'))).ok());
}

TEST_F(KeyFileTest, AFileWithoutAnyKeyIsAnErrorBecauseItWouldOpenTheServer) {
  for (const char* text : {"", "\n\n", "# nothing\n", "   \n"}) {
    EXPECT_FALSE(read_keys(write(text)).ok());
  }
  const auto missing = read_keys(path_ + "-missing");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().field, "--some-key-file");
  EXPECT_NE(missing.error().message.find("--some-key-file"), std::string::npos);
  EXPECT_FALSE(read_keys(::testing::TempDir()).ok());
}

TEST_F(KeyFileTest, TheNumberOfKeysIsBounded) {
  std::string text;
  for (size_t i = 0; i < kKeysMax; ++i) text += "key" + std::to_string(i) + "\n";
  EXPECT_TRUE(read_keys(write(text)).ok());
  EXPECT_FALSE(read_keys(write(text + "one-more\n")).ok());
}

TEST_F(KeyFileTest, AFileThatEveryUserCanReadIsTold) {
  using std::filesystem::perms;
  write("key\n");
  std::filesystem::permissions(path_, perms::owner_read | perms::owner_write);
  EXPECT_FALSE(read_keys(path_)->open_to_others);
  EXPECT_FALSE(read_keys(path_)->open_to_group);
  std::filesystem::permissions(path_, perms::group_read, std::filesystem::perm_options::add);
  EXPECT_FALSE(read_keys(path_)->open_to_others);
  EXPECT_TRUE(read_keys(path_)->open_to_group);
  std::filesystem::permissions(path_, perms::others_read, std::filesystem::perm_options::add);
  EXPECT_TRUE(read_keys(path_)->open_to_others);
}

TEST_F(KeyFileTest, KeysOfBothPlacesCountAndTheAdminKeyIsNobodyElses) {
  ServeOptions options;
  options.api_keys = {"a", "b"};
  options.api_key_file = write("c\n");
  options.admin_key = "root";
  const auto keys = collect_keys(options);
  ASSERT_TRUE(keys.ok()) << keys.error().message;
  EXPECT_EQ(keys->api, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(keys->admin, "root");
  options.admin_key = "c";
  EXPECT_FALSE(collect_keys(options).ok());
  options.admin_key = "";
  options.api_keys = {""};
  EXPECT_FALSE(collect_keys(options).ok());
}

}  // namespace
}  // namespace bulkhead::serve
