"""Failures that others had in public, by their number in docs/cases.md: what a start exposes, uses
and refuses."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import (
    REQUEST_SECONDS,
    can_start_servers,
    chat,
    find_binary,
    find_model,
    metrics,
)
from test_lifecycle import OwnServer


def dry_run(*flags, cpus=None):
    """Exit code and output of a start that stops before it loads weights."""
    environment = {name: value for name, value in os.environ.items() if name != "BULKHEAD_API_KEY"}
    done = subprocess.run(
        [find_binary(), "serve", "--model", find_model(), "--dry-run", *flags],
        preexec_fn=None if cpus is None else lambda: os.sched_setaffinity(0, cpus),
        capture_output=True,
        text=True,
        env=environment,
        timeout=REQUEST_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def listening(pid):
    """(address in hex, port) of every TCP socket on which a process listens."""
    folder = pathlib.Path(f"/proc/{pid}")
    own = set()
    for entry in (folder / "fd").iterdir():
        try:
            own.add(os.readlink(entry))
        except OSError:
            continue  # closed meanwhile
    found = set()
    for table in ("tcp", "tcp6"):
        for line in (folder / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                address, port = fields[1].split(":")
                found.add((address, int(port, 16)))
    return found


class Starts(unittest.TestCase):
    def setUp(self):
        if not can_start_servers():
            self.skipTest("needs the binary and the model to start a server of its own")

    # C224
    def test_a_bind_beyond_loopback_needs_a_key(self):
        for host in ("0.0.0.0", "::", "192.0.2.1", "example.invalid"):
            with self.subTest(host=host):
                code, text = dry_run("--host", host)
                self.assertNotEqual(code, 0, text)
                self.assertIn("--api-key", text)
                self.assertIn(host, text)
        for flags in (("--host", "127.0.0.1"), ("--host", "0.0.0.0", "--api-key", "k")):
            self.assertEqual(dry_run(*flags)[0], 0, flags)

    # C216
    def test_the_threads_are_those_of_the_processors_it_was_given(self):
        cpus = sorted(os.sched_getaffinity(0))
        for count in {1, len(cpus)}:
            code, text = dry_run(cpus=set(cpus[:count]))
            self.assertEqual(code, 0, text)
            threads = int(text.split(" threads")[0].split()[-1])
            self.assertTrue(1 <= threads <= count, text)


class DefaultStart(OwnServer):
    # C223
    def test_only_the_api_listens_and_on_loopback_alone(self):
        loopback = "0100007F"  # 127.0.0.1 as /proc writes it
        self.assertEqual(listening(self.server.process.pid), {(loopback, self.server.port)})

    # C222
    def test_the_kernels_in_use_are_the_best_of_this_processor_and_are_told(self):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
        ladder = [
            ("amx", {"amx_bf16", "amx_tile", "avx512bw"}),
            ("avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl"}),
            ("avx2", {"avx2", "fma", "f16c"}),
            ("ref", set()),
        ]
        best = next(isa for isa, needs in ladder if needs <= set(flags))
        if os.environ.get("BULKHEAD_ISA"):
            best = os.environ["BULKHEAD_ISA"]
        samples, _ = metrics(self.server)
        info = next(name for name in samples if name.startswith("bulkhead_kernels_info"))
        # The operating system may withhold the tiles that the processor has.
        allowed = {best, "avx512"} if best == "amx" else {best}
        self.assertTrue(any(f'isa="{isa}"' in info for isa in allowed), (info, best))
        self.assertIn("kernels", self.server.log_text())


TEMPLATE = """
{%- for message in messages -%}
  {%- if message.role == 'system' -%}{{ raise_exception('No system turns, please.') }}{%- endif -%}
  {%- if 'loop' in message.content -%}
    {%- for a in range(100000) -%}{%- for b in range(100000) -%}{%- endfor -%}{%- endfor -%}
  {%- endif -%}
  {%- if 'swell' in message.content -%}{{ 'x' * 10 ** 10 }}{%- endif -%}
  {{ message.content }}
{%- endfor -%}
"""


class HostileTemplate(OwnServer):
    @classmethod
    def setUpClass(cls):
        handle, path = tempfile.mkstemp(suffix=".jinja")
        with os.fdopen(handle, "w") as file:
            file.write(TEMPLATE)
        cls.addClassCleanup(os.unlink, path)
        cls.flags = ("--chat-template", path)
        super().setUpClass()

    # C179
    def test_what_the_template_refuses_is_a_400_with_its_own_words(self):
        for streamed in (False, True):
            answer = chat(
                self.server,
                "",
                messages=[{"role": "system", "content": "x"}, {"role": "user", "content": "y"}],
                stream=streamed,
            )
            self.assert_error(answer, 400, "invalid_value", "messages")
            self.assertIn("No system turns, please.", answer.error["message"])

    # C148
    def test_a_template_that_loops_or_swells_ends_its_own_request_alone(self):
        for content in ("loop", "swell"):
            for streamed in (False, True):
                answer = chat(self.server, content, stream=streamed, max_tokens=1)
                self.assertIn(answer.status, (400, 500), answer.body)
                self.assertTrue(answer.error["message"])
        self.assertEqual(chat(self.server, "hi", max_tokens=1).status, 200)

    # C148
    def test_a_client_may_not_bring_a_template(self):
        answer = chat(self.server, "hi", chat_template="{{ 'x' * 10 ** 10 }}")
        self.assert_error(answer, 400, "unsupported_parameter", "chat_template")
