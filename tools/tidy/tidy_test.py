#!/usr/bin/env python3
"""The tidy checks against small trees that break one rule each: none may pass quietly."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import budgets
import layers
import markers
import structure
import words
from source_tree import SourceTree, blank_comments_and_literals, functions

HEADER = "// What it is for.\n//\n// Threads: any.\n#pragma once\n"


class TidyTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.root = pathlib.Path(self._folder.name)

    def tree(self, files):
        for path, text in files.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return SourceTree(self.root)

    def messages(self, check, files):
        return [str(finding) for finding in check(self.tree(files))]

    def assert_found(self, check, files, *parts):
        messages = self.messages(check, files)
        self.assertTrue(any(all(part in message for part in parts) for message in messages),
                        f"no finding with {parts} in {messages}")

    def assert_clean(self, check, files):
        self.assertEqual(self.messages(check, files), [])


class LayersTest(TidyTest):
    def test_an_edge_of_the_table_passes(self):
        self.assert_clean(layers.check, {
            "src/chat/prompt.h": HEADER + '#include "text/tokenizer.h"\n#include "base/check.h"\n',
            "src/text/tokenizer.h": HEADER, "src/base/check.h": HEADER})

    def test_an_edge_outside_the_table_fails(self):
        self.assert_found(layers.check, {
            "src/text/tokenizer.h": HEADER + '#include "chat/prompt.h"\n',
            "src/chat/prompt.h": HEADER}, "tokenizer.h:5", "text may not include")

    def test_prefill_and_decode_never_meet(self):
        self.assert_found(layers.check, {
            "src/prefill/pool.h": HEADER + '#include "decode/pool.h"\n',
            "src/decode/pool.h": HEADER}, "prefill may not include")

    def test_a_model_sees_cache_views_but_not_the_allocator(self):
        self.assert_clean(layers.check, {
            "src/model/a.h": HEADER + '#include "kv/layout.h"\n', "src/kv/layout.h": HEADER})
        self.assert_found(layers.check, {
            "src/model/b.h": HEADER + '#include "kv/page_pool.h"\n',
            "src/kv/page_pool.h": HEADER}, "model may not include")

    def test_only_apps_include_serve(self):
        files = {"src/serve/server.h": HEADER, "apps/main.cc": '#include "serve/server.h"\n'}
        self.assert_clean(layers.check, files)
        self.assert_found(layers.check, {"bench/x.cc": '#include "serve/server.h"\n'}, "only apps")

    def test_a_header_that_reaches_itself_fails(self):
        self.assert_found(layers.check, {
            "src/kv/a.h": HEADER + '#include "kv/b.h"\n',
            "src/kv/b.h": HEADER + '#include "kv/a.h"\n'}, "includes go round")

    def test_a_cycle_of_modules_is_seen_even_where_the_files_make_none(self):
        self.assert_found(layers.check, {
            "src/kv/a.h": HEADER + '#include "device/b.h"\n', "src/device/b.h": HEADER,
            "src/device/c.h": HEADER + '#include "kv/d.h"\n', "src/kv/d.h": HEADER},
            "modules go round")

    def test_a_path_that_is_not_from_src_fails(self):
        self.assert_found(layers.check, {
            "src/kv/a.h": HEADER + '#include "b.h"\n', "src/kv/b.h": HEADER}, "not a path from src")

    def test_an_unknown_folder_fails(self):
        self.assert_found(layers.check, {"src/utils/a.h": HEADER}, "has no row")

    def test_an_included_module_must_be_declared_to_the_build(self):
        files = {"src/http/a.cc": '#include "telemetry/metrics.h"\n',
                 "src/telemetry/metrics.h": HEADER,
                 "src/http/CMakeLists.txt": "bulkhead_module(NAME http SOURCES a.cc DEPS base)\n"}
        self.assert_found(layers.check, files, "does not list telemetry")
        files["src/http/CMakeLists.txt"] = (
            "bulkhead_module(NAME http SOURCES a.cc DEPS base telemetry LIBS fmt::fmt)\n")
        self.assert_clean(layers.check, files)

    def test_a_declared_dependency_must_be_in_the_table(self):
        self.assert_found(layers.check, {
            "src/http/a.cc": "\n",
            "src/http/CMakeLists.txt": "bulkhead_module(NAME http SOURCES a.cc DEPS model)\n"},
            "http may not depend on model")

    def test_a_commented_out_include_is_no_edge(self):
        self.assert_clean(layers.check, {"src/base/a.cc": '// #include "serve/server.h"\n'})


class BudgetsTest(TidyTest):
    def body(self, lines):
        return "int f(int a) {\n" + "  a += 1;\n" * (lines - 2) + "}\n"

    def test_a_function_at_the_limit_passes_and_one_over_it_fails(self):
        self.assert_clean(budgets.check, {"src/kv/a.cc": self.body(budgets.FUNCTION_LINES)})
        self.assert_found(budgets.check, {"src/kv/a.cc": self.body(budgets.FUNCTION_LINES + 1)},
                          "function f has 71 lines")

    def test_kernels_get_more_room(self):
        limit = budgets.KERNEL_FUNCTION_LINES
        self.assert_clean(budgets.check, {"src/kernels/a.cc": self.body(limit)})
        self.assert_found(budgets.check, {"src/kernels/a.cc": self.body(limit + 1)}, "function f")

    def test_methods_lambdas_and_constructors_are_functions_too(self):
        long_body = "  x();\n" * 80
        for text in ("namespace n {\nclass A {\n int f() const {\n" + long_body + "}\n};\n}\n",
                     "A::A(int a)\n    : a_(a),\n      b_{1} {\n" + long_body + "}\n",
                     "auto f = [](int a) {\n" + long_body + "};\n",
                     "template <class T>\nstruct B {\n T g() {\n" + long_body + "}\n};\n",
                     "extern \"C\" int h(int a) {\n" + long_body + "}\n"):
            if text.startswith("extern"):
                text = 'extern "C" {\n' + text[len('extern "C" '):] + "}\n"
            self.assert_found(budgets.check, {"src/kv/a.cc": text}, "function")

    def test_a_long_table_is_not_a_function(self):
        self.assert_clean(budgets.check, {
            "src/kv/a.cc": "const int kTable[] = {\n" + "  1,\n" * 200 + "};\n"})

    def test_a_python_function_has_the_same_limit(self):
        self.assert_found(budgets.check, {"tools/a.py": "def f():\n" + "    x = 1\n" * 71},
                          "function f")

    def test_a_python_file_that_does_not_parse_is_reported(self):
        self.assert_found(budgets.check, {"tools/a.py": "def f(:\n"}, "not Python")

    def test_a_long_file_and_a_long_line_fail(self):
        self.assert_found(budgets.check, {"src/kv/a.cc": "int a;\n" * (budgets.FILE_LINES + 1)},
                          "801 lines")
        self.assert_found(budgets.check, {"src/kv/b.cc": "// " + "x" * 100 + "\n"}, "103 columns")

    def test_a_generated_table_is_exempt(self):
        self.assert_clean(budgets.check, {
            "src/kv/a.cc": "// Generated by tools/x.py. Do not edit.\n" + "int a;\n" * 900})

    def test_a_crowded_folder_fails(self):
        files = {f"src/kv/f{n}.h": HEADER for n in range(budgets.FOLDER_FILES + 1)}
        self.assert_found(budgets.check, files, "26 source files")

    def test_braces_that_do_not_balance_are_reported_and_not_skipped(self):
        self.assert_found(budgets.check, {"src/kv/a.cc": "int f() {\n"}, "do not balance")


class MarkersTest(TidyTest):
    def test_marks_of_unfinished_work_fail_in_code_scripts_and_documents(self):
        mark = "TO" + "DO"
        for path in ("src/kv/a.cc", "tools/a.py", "docs/a.md", "Makefile"):
            self.assert_found(markers.check, {path: f"// {mark}: later\n"}, "leftover mark")

    def test_console_output_fails_except_where_it_belongs(self):
        for text in ("std::cout << 1;", 'printf("x");', 'fprintf(stderr, "");', 'fmt::print("");'):
            self.assert_found(markers.check, {"src/kv/a.cc": text + "\n"}, "console output")
            self.assert_clean(markers.check, {"src/kv/a.cc": "", "src/serve/a.cc": text + "\n"})

    def test_the_word_in_a_comment_or_a_string_is_no_output(self):
        self.assert_clean(markers.check, {
            "src/kv/a.cc": '// printf("x")\nconst char* s = "std::cout << 1";\nsnprintf(b, 1);\n'})

    def test_an_instruction_set_switch_fails_outside_the_kernels(self):
        switch = "#if defined(__AVX2__)\n#endif\n"
        self.assert_found(markers.check, {"src/model/a.cc": switch}, "instruction-set switch")
        self.assert_clean(markers.check, {"src/model/a.cc": "", "src/kernels/a.cc": switch})


class StructureTest(TidyTest):
    def complete(self):
        return {"src/README.md": "x", "src/kv/README.md": "x",
                "src/kv/CMakeLists.txt": "bulkhead_module(NAME kv SOURCES a.cc TESTS a_test.cc)\n",
                "src/kv/a.h": HEADER, "src/kv/a.cc": '#include "kv/a.h"\n',
                "src/kv/a_test.cc": '#include "kv/a.h"\n'}

    def test_a_complete_module_passes(self):
        self.assert_clean(structure.check, self.complete())

    def test_a_source_nobody_builds_fails(self):
        self.assert_found(structure.check, self.complete() | {"src/kv/b.cc": "\n"},
                          "src/kv/b.cc", "builds this file")

    def test_a_name_in_a_comment_of_the_build_does_not_count(self):
        files = self.complete() | {"src/kv/b.cc": "\n"}
        files["src/kv/CMakeLists.txt"] += "# b.cc\n"
        self.assert_found(structure.check, files, "src/kv/b.cc")

    def test_a_header_nobody_includes_fails(self):
        self.assert_found(structure.check, self.complete() | {"src/kv/b.h": HEADER},
                          "src/kv/b.h", "no file includes")

    def test_headers_open_with_purpose_thread_rule_and_pragma(self):
        for text, part in (("#pragma once\n", "open with its purpose"),
                           ("// Purpose.\n#pragma once\n", "no thread rule"),
                           ("// Purpose.\n// Threads: any.\nint a;\n", "#pragma once")):
            self.assert_found(structure.check, self.complete() | {"src/kv/a.h": text}, part)

    def test_a_folder_without_a_readme_fails(self):
        files = self.complete()
        del files["src/kv/README.md"]
        self.assert_found(structure.check, files, "src/kv:1", "README")


class WordsTest(TidyTest):
    def test_a_second_word_for_a_concept_fails_in_identifiers_only(self):
        self.assert_found(words.check, {"src/kv/a.cc": "int block_table = 0;\n"}, "say page")
        self.assert_found(words.check, {"src/engine/a.cc": "struct SeqGroup;\n"}, "say sequence")
        self.assert_clean(words.check, {"src/kv/a.cc": "// never blocks\nint blocked = 0;\n",
                                        "src/engine/a.cc": "",
                                        "src/quant/b.cc": "int block_scale = 0;\n"})


class ReadingTest(unittest.TestCase):
    def test_comments_and_literals_are_blanked_and_lines_kept(self):
        text = 'a /* { */ "}" R"x({)x" \'{\' 1\'000 // }\nb'
        code = blank_comments_and_literals(text)
        self.assertEqual(code.count("\n"), 1)
        self.assertNotIn("{", code)
        self.assertNotIn("}", code)
        self.assertIn("1'000", code)

    def test_functions_are_found_with_their_length(self):
        class File:
            path = "a.cc"
            code = ("namespace a {\nint f(int b = 1,\n      int c = 2) {\n  return b;\n}\n"
                    "struct S { int x{0}; };\nbool operator==(S a, S b) { return true; }\n}\n")
        found = [(f.name, f.first_line, f.lines) for f in functions(File)]
        self.assertEqual(found, [("f", 2, 4), ("operator==", 7, 1)])


if __name__ == "__main__":
    unittest.main()
