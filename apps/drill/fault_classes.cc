#include "apps/drill/fault_classes.h"

#include <algorithm>

namespace bulkhead::apps {

std::span<const FaultClass> fault_classes() {
  static const std::vector<FaultClass> kAll = {
      {.name = "stale_mapping",
       .meaning = "an entry of a page table names a page that was freed",
       .kinds = {"tag"}},
      {.name = "overwritten_entry",
       .meaning = "an entry names another request's page",
       .kinds = {"tag", "label"}},
      {.name = "out_of_range_id",
       .meaning = "an entry names no page of the pool",
       .kinds = {"out_of_range"}},
      {.name = "wrong_order", .meaning = "two entries are exchanged", .kinds = {"tag"}},
      {.name = "permuted_table",
       .meaning = "two entries are exchanged together with what is expected of them",
       .kinds = {"misplaced"}},
      {.name = "double_allocation",
       .meaning = "a page that is held is handed out once more",
       .kinds = {"tag", "books", "quarantined"}},
      {.name = "missed_reference",
       .meaning = "a page has one lease less than holders",
       .kinds = {"tag", "books", "quarantined"}},
      {.name = "tag_flip",
       .meaning = "a bit of a page's tag",
       .kinds = {"tag", "books", "quarantined"}},
      {.name = "wrong_label", .meaning = "a page's label is another tenant's", .kinds = {"label"}},
      {.name = "page_flip",
       .meaning = "a bit of a page that the prefix index keeps",
       .moment = Moment::kAtRest,
       .where = Where::kPrompts,
       .kinds = {"digest"},
       .note = "by the scrubber; who reads the page before it comes by is not warned"},
      {.name = "tail_flip",
       .meaning = "a bit of a page that is still being written",
       .where = Where::kAnswers,
       .note = "a digest is taken when a page is full: the scrubber and the handoff between "
               "processes see what changes after that"},
  };
  return kAll;
}

const FaultClass* find_fault_class(std::string_view name) {
  const auto all = fault_classes();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [name](const FaultClass& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const FaultClass& no_fault() {
  static const FaultClass kNone = {
      .name = "none", .meaning = "the control: nothing is damaged", .moment = Moment::kNever};
  return kNone;
}

}  // namespace bulkhead::apps
