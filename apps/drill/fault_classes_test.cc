#include "apps/drill/fault_classes.h"

#include <gtest/gtest.h>

#include "kv/integrity/injector.h"

namespace bulkhead::apps {
namespace {

using kv::integrity::kAllKinds;

TEST(FaultClasses, AreThoseOfTheInjector) {
  EXPECT_EQ(fault_classes().size(), kv::integrity::kFaults);
  for (const FaultClass& fault : fault_classes()) {
    const auto parsed = kv::integrity::parse_fault(fault.name);
    ASSERT_TRUE(parsed) << fault.name;
    EXPECT_EQ(find_fault_class(to_string(*parsed)), &fault);
    EXPECT_FALSE(fault.meaning.empty());
    EXPECT_TRUE(fault.seen() || !fault.note.empty()) << "says why nothing sees it: " << fault.name;
  }
  EXPECT_EQ(find_fault_class("earthquake"), nullptr);
  EXPECT_FALSE(no_fault().seen());
}

TEST(FaultClasses, AreToldByKindsThatThereAre) {
  for (const FaultClass& fault : fault_classes()) {
    for (const std::string_view kind : fault.kinds) {
      bool known = false;
      for (const auto one : kAllKinds) known = known || to_string(one) == kind;
      EXPECT_TRUE(known) << fault.name << ": " << kind;
    }
  }
}

}  // namespace
}  // namespace bulkhead::apps
