"""What the benchmark and soak scripts compute, without any server."""

import importlib.util
import json
import pathlib
import sys
import tempfile
import unittest
import xml.dom.minidom

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import answers  # noqa: E402
import history  # noqa: E402
import probe  # noqa: E402
import reproduce_plot  # noqa: E402
import scaling  # noqa: E402
import svg_plot  # noqa: E402


def load_soak():
    spec = importlib.util.spec_from_file_location("soak", ROOT / "tests" / "soak" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Lines(unittest.TestCase):
    def test_a_straight_line_is_found_and_nothing_is_off_it(self):
        points = [(x, 3 + 0.5 * x) for x in (1, 2, 4, 8, 128)]
        line = scaling.fit(points)
        self.assertAlmostEqual(line[0], 3)
        self.assertAlmostEqual(line[1], 0.5)
        for point in points:
            self.assertAlmostEqual(scaling.above_line(point, line), 0)

    def test_a_cliff_shows(self):
        points = [(x, 3 + 0.5 * x) for x in (1, 2, 4, 8, 16)] + [(32, 60)]
        line = scaling.fit(points)
        self.assertGreater(scaling.above_line(points[-1], line), 0.15)


class History(unittest.TestCase):
    def test_every_part_of_a_run_has_its_figures(self):
        measured = {"requests": [(8, 2.5, 3200.0, 2900.0)], "context": [(1024, 1.5, 9.0)],
                    "prefix": {"hit_ms": 4.0, "miss_ms": 40.0}, "pages": [(10, 300, 400, 50)],
                    "http": {"ttft_ms": 5.0, "engine_ms": 4.25}}
        lines = list(scaling.figures(measured))
        figures = {line["figure"]: (line["median"], line["unit"]) for line in lines}
        self.assertEqual(len(figures), len(lines), "every figure has a name of its own")
        self.assertEqual(figures["step of 8 requests"], (2.5, "ms"))
        self.assertEqual(figures["first token of 1024"], (1.5, "s"))
        self.assertEqual(figures["find a page of 10"], (300, "ns"))
        self.assertEqual(figures["added by HTTP"], (0.75, "ms"))
        self.assertEqual(list(scaling.figures({})), [])

    def test_lines_are_added_behind_what_was_there(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "history.jsonl"
            for number in (1, 2):
                history.append(path, [history.entry("b", "f", "ms", [number, 3, 3], model="m")])
            lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual([line["values"] for line in lines], [[1, 3, 3], [2, 3, 3]])
        self.assertEqual([line["median"] for line in lines], [3, 3])
        for name in ("bench", "date", "commit", "machine", "model", "figure", "unit"):
            self.assertTrue(lines[0][name], name)
        with self.assertRaises(AssertionError):
            history.entry("b", "f", "ms", [1], weather="rain")


class Answers(unittest.TestCase):
    def test_32_prompts_of_many_lengths_without_repetition(self):
        prompts = answers.prompts()
        self.assertEqual(len(prompts), 32)
        self.assertEqual(len(set(prompts)), 32)
        words = [len(prompt.split()) for prompt in prompts]
        self.assertLessEqual(min(words), 4)
        self.assertGreaterEqual(max(words), 150)
        self.assertLess(max(len(prompt) for prompt in prompts), 1600, "fits a context of 640")

    def test_only_different_answers_count(self):
        count = answers._different  # noqa: SLF001
        self.assertEqual(count(["a", "b", "c"], ["a", "x", "c"]), 1)
        self.assertEqual(count(["a"], ["a"]), 0)


class Metrics(unittest.TestCase):
    def test_the_mean_is_of_what_came_between_two_readings(self):
        before = {"h_sum": 10.0, "h_count": 4.0}
        after = {"h_sum": 16.0, "h_count": 7.0}
        self.assertEqual(probe.mean_seconds(before, after, "h"), 2.0)
        self.assertEqual(probe.mean_seconds(after, after, "h"), 0.0)


class Plot(unittest.TestCase):
    def chart(self, points, line=None):
        return svg_plot.Chart("A <title>", "x", "y", [svg_plot.Series("one", points, line)])

    def test_a_plot_is_valid_xml_and_stays_inside_its_frame(self):
        points = [(1, 20.5), (64, 90.0), (128, 160.0)]
        text = svg_plot.draw([self.chart(points, (19.0, 1.1)), self.chart(points)])
        document = xml.dom.minidom.parseString(text)
        circles = document.getElementsByTagName("circle")
        self.assertEqual(len(circles), 6)
        for circle in circles:
            self.assertTrue(0 <= float(circle.getAttribute("cx")) <= svg_plot.WIDTH)
            self.assertTrue(0 <= float(circle.getAttribute("cy")) <= svg_plot.HEIGHT)

    def test_ticks_are_round_start_at_zero_and_cover_the_largest(self):
        for largest in (0.003, 0.7, 1, 9, 128, 160.8, 32768):
            ticks = svg_plot._ticks(largest)  # noqa: SLF001
            self.assertEqual(ticks[0], 0)
            self.assertGreaterEqual(ticks[-1], largest * 0.999)
            self.assertTrue(3 <= len(ticks) <= 7, (largest, ticks))


class ReproducePlot(unittest.TestCase):
    def curve(self, figure, chart, name):
        points = [{"requests": n, "tokens_per_s": 10.0 * n, "p10": 9.0, "p90": 11.0}
                  for n in (1, 8, 64)]
        return {"figure": figure, "chart": chart, "name": name, "points": points}

    def test_curves_of_one_chart_share_a_frame_and_of_one_figure_a_picture(self):
        run = {"curves": [self.curve("caches", "K", "BF16"), self.curve("caches", "K", "FP8"),
                          self.curve("caches", "L", "BF16"), self.curve("weights", "G", "INT4")]}
        figures = reproduce_plot.charts_of(run)
        self.assertEqual(list(figures), ["caches", "weights"])
        self.assertEqual([chart.title for chart in figures["caches"]], ["K", "L"])
        self.assertEqual([one.name for one in figures["caches"][0].series], ["BF16", "FP8"])
        self.assertEqual(figures["weights"][0].series[0].points[-1], (64, 640.0))
        xml.dom.minidom.parseString(svg_plot.draw(figures["caches"]))


class Soak(unittest.TestCase):
    def setUp(self):
        self.soak = load_soak()

    def test_a_stream_is_whole_only_with_its_end_mark(self):
        event = b'data: {"choices":[{"text":"hi"}]}\n\n'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

        def chunk(data):
            return b"%x\r\n%s\r\n" % (len(data), data)

        whole = head + chunk(event) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        self.assertEqual(self.soak.answer_of(whole), (200, "hi", True))
        self.assertEqual(self.soak.answer_of(head + chunk(event)), (200, "hi", False))

    def test_a_refusal_is_no_answer(self):
        raw = b"HTTP/1.1 429 Too Many Requests\r\n\r\n{}"
        self.assertEqual(self.soak.answer_of(raw), (429, None, True))
        self.assertEqual(self.soak.answer_of(b""), (0, None, False))

    def test_memory_that_keeps_growing_is_a_fault(self):
        flat = [(second, 100 << 20) for second in range(60)]
        self.assertIsNone(self.soak.memory_fault(flat, 60))
        rising = [(second, (100 + second) << 20) for second in range(60)]
        self.assertIn("grew", self.soak.memory_fault(rising, 60))
        early = [(second, (100 + min(second, 20)) << 20) for second in range(60)]
        self.assertIsNone(self.soak.memory_fault(early, 60))

    def test_requests_share_prefixes_and_differ(self):
        bodies = self.soak.requests_to_draw_from(48)
        prompts = [body["prompt"] for body in bodies]
        self.assertEqual(len(set(prompts)), 48)
        self.assertEqual(prompts[1][:700], prompts[3][:700])


if __name__ == "__main__":
    unittest.main()
