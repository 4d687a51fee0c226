#!/usr/bin/env python3
"""The check of docs/cases.md on small pages that break one rule each."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases
from source_tree import SourceTree

TEST = "// C042, C044\nTEST(Pool, Holds) {\n}\n\nTEST(Pool, Drops) {\n}\n"
SCRIPT = "class Pool(Case):\n    # C042\n    def test_holds(self):\n        pass\n"
WHERE = "`src/kv/pool_test.cc: Pool.Holds`"


def row(number, state="later", where="two pools"):
    return f"| [C{number:03}](https://example.org) | what | K1 | {state} | {where} |\n"


class CasesTest(unittest.TestCase):
    def findings(self, changed=None, without=(), more=""):
        rows = {number: row(number) for number in cases.NUMBERS}
        rows.update(changed or {})
        page = "".join(rows[number] for number in sorted(rows) if number not in without) + more
        with tempfile.TemporaryDirectory() as folder:
            for path, text in {"docs/cases.md": page, "src/kv/pool_test.cc": TEST,
                               "tests/e2e/test_pool.py": SCRIPT}.items():
                target = pathlib.Path(folder) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            return [str(finding) for finding in cases.check(SourceTree(folder))]

    def assert_found(self, part, **page):
        self.assertTrue(any(part in finding for finding in self.findings(**page)), part)

    def test_the_bank_has_150_numbers(self):
        self.assertEqual(len(cases.NUMBERS), 150)

    def test_a_page_with_one_row_for_each_is_clean(self):
        self.assertEqual(self.findings(), [])
        self.assertEqual(self.findings({42: row(42, "test", WHERE)}), [])
        self.assertEqual(
            self.findings({42: row(42, "test", "`tests/e2e/test_pool.py: Pool.test_holds`")}), [])

    def test_a_missing_a_double_and_a_foreign_row_are_found(self):
        self.assert_found("C042 has no row", without={42})
        self.assert_found("C042 has a row in line", more=row(42))
        self.assert_found("C002 is no case", more=row(2))

    def test_a_test_must_exist_and_name_its_case(self):
        self.assert_found("without a test", changed={42: row(42, "test", "somewhere")})
        self.assert_found("no file", changed={42: row(42, "test", "`src/kv/x_test.cc: A.B`")})
        self.assert_found("has no test Pool.Gone",
                          changed={42: row(42, "test", "`src/kv/pool_test.cc: Pool.Gone`")})
        self.assert_found("does not name it", changed={45: row(45, "test", WHERE)})
        self.assert_found("does not name it",
                          changed={42: row(42, "test", "`src/kv/pool_test.cc: Pool.Drops`")})
        self.assert_found("does not name it", changed={45: row(45, "later", "pools; " + WHERE)})

    def test_a_state_is_one_of_three_and_a_reason_is_given(self):
        self.assert_found("is none of", changed={42: row(42, "done")})
        self.assert_found("where or why", changed={42: row(42, "later", " ")})


if __name__ == "__main__":
    unittest.main(verbosity=2)
