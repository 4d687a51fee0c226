"""jinja2 set up as Hugging Face transformers sets it up for chat templates: the oracle."""
import datetime
import json

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1_764_072_123  # 2025-11-25 12:02:03 UTC


class GenerationTag(jinja2.ext.Extension):
    """{% generation %}: transformers notes where the body lies; the text is unchanged."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class Refusal(jinja2.exceptions.TemplateError):
    """What raise_exception raises; transformers raises TemplateError itself."""


def raise_exception(message):
    raise Refusal(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(pattern):
    now = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None)
    return now.strftime(pattern)


def environment(optimized=True):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, optimized=optimized,
                                        extensions=[GenerationTag, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


class Template:
    """A compiled template, or the error compiling gave."""

    def __init__(self, env, source):
        self.error = None
        try:
            self.template = env.from_string(source)
        except Exception as error:  # jinja2 lets Python's own errors through
            self.error = error

    def render(self, request):
        """(text, None) or (None, exception)."""
        if self.error is not None:
            return None, self.error
        variables = {"documents": None}
        for name in ("bos_token", "eos_token"):
            if request.get(name):
                variables[name] = request[name]
        variables.update(request.get("extra", {}))
        variables.update(messages=request["messages"], tools=request.get("tools"),
                         add_generation_prompt=request["add_generation_prompt"])
        try:
            return self.template.render(**variables), None
        except Exception as error:
            return None, error
