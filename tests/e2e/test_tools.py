"""Tools through PyPI's openai client, on a server whose template calls tools as Qwen's does."""

import json
import unittest

import jsonschema
import openai

from harness import ROOT, Server, call, can_start_servers

TEMPLATE = ROOT / "tests/chat/templates/chatml_tools.jinja"
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "weather", "description": "A forecast", "parameters": WEATHER},
    },
    {"type": "function", "function": {"name": "now"}},
]
ASK = [{"role": "user", "content": "What is the weather in Oslo?"}]


def folded(stream):
    """The message and finish reason of a stream's chunks, as a client puts them together."""
    message, finish = {"content": "", "calls": []}, None
    for chunk in stream:
        for choice in chunk.choices:
            delta = choice.delta
            message["content"] += delta.content or ""
            for piece in delta.tool_calls or []:
                if piece.id:
                    assert piece.index == len(message["calls"])
                    message["calls"].append([piece.function.name, ""])
                message["calls"][piece.index][1] += piece.function.arguments or ""
            finish = choice.finish_reason or finish
    return message, finish


@unittest.skipUnless(can_start_servers(), "needs a server of its own")
class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(["--chat-template", str(TEMPLATE)])
        cls.client = openai.OpenAI(
            base_url=cls.server.url + "/v1", api_key="none", max_retries=0, timeout=300
        )
        cls.model = cls.client.models.list().data[0].id

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, f"the server ended with exit code {code}: {cls.server.log_text()}"

    def ask(self, **fields):
        fields = {"messages": ASK, "temperature": 0, "max_tokens": 96, **fields}
        return self.client.chat.completions.create(model=self.model, **fields)

    def check_call(self, call, name=None):
        self.assertEqual(call.type, "function")
        self.assertRegex(call.id, "^call_[0-9a-f]{24}$")
        self.assertIn(call.function.name, ("weather", "now"))
        self.assertEqual(call.function.name, name or call.function.name)
        arguments = json.loads(call.function.arguments)
        if call.function.name == "weather":
            jsonschema.validate(arguments, WEATHER)

    def test_the_template_chose_the_parsers_and_the_server_says_so(self):
        info = call(self.server, "GET", "/server_info").json()
        self.assertEqual((info["tool_call_parser"], info["reasoning_parser"]), ("qwen25", "qwen3"))
        with open(self.server.log_path, encoding="utf-8") as log:
            text = log.read()
        self.assertRegex(text, r"tool calls +qwen25 \(the chat template has <tool_call>")
        self.assertRegex(text, r"reasoning +qwen3 \(the chat template has <think>")

    def test_tools_reach_the_prompt_and_an_answer_comes_back(self):
        prompt = call(
            self.server, "POST", "/apply-template", {"messages": ASK, "tools": TOOLS}
        ).json()["prompt"]
        self.assertIn('"name": "weather"', prompt)
        plain, with_tools = self.ask(), self.ask(tools=TOOLS)
        self.assertGreater(with_tools.usage.prompt_tokens, plain.usage.prompt_tokens)
        choice = with_tools.choices[0]
        self.assertIn(choice.finish_reason, ("stop", "length", "tool_calls"))
        self.assertEqual(choice.finish_reason == "tool_calls", bool(choice.message.tool_calls))
        without = self.ask(tools=TOOLS, tool_choice="none")
        self.assertEqual(without.usage.prompt_tokens, plain.usage.prompt_tokens)
        self.assertEqual(without.choices[0].message.content, plain.choices[0].message.content)

    def test_a_named_function_is_called_with_arguments_of_its_schema(self):
        named = {"type": "function", "function": {"name": "weather"}}
        for temperature, seed in ((0, 1), (1, 1), (2, 2)):
            choice = self.ask(
                tools=TOOLS,
                tool_choice=named,
                parallel_tool_calls=False,
                temperature=temperature,
                seed=seed,
            ).choices[0]
            self.assertEqual(choice.finish_reason, "tool_calls")
            self.assertIsNone(choice.message.content)
            self.assertEqual(len(choice.message.tool_calls), 1)
            self.check_call(choice.message.tool_calls[0], "weather")

    def test_a_forced_call_streams_to_the_whole_answer(self):
        fields = dict(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
        choice = self.ask(**fields).choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        for one in choice.message.tool_calls:
            self.check_call(one)
        message, finish = folded(self.ask(**fields, stream=True))
        whole = [[one.function.name, one.function.arguments] for one in choice.message.tool_calls]
        self.assertEqual((message["content"], message["calls"], finish), ("", whole, "tool_calls"))

    def test_a_conversation_with_calls_and_results_goes_on(self):
        first = self.ask(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
        message = first.choices[0].message
        results = [
            {"role": "tool", "tool_call_id": one.id, "content": "Sunny, 21 degrees."}
            for one in message.tool_calls
        ]
        # The client sends the answer back as it got it, with all of its members.
        messages = ASK + [message.model_dump()] + results
        answer = self.ask(messages=messages, tools=TOOLS)
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length", "tool_calls"))
        prompt = call(
            self.server, "POST", "/apply-template", {"messages": messages, "tools": TOOLS}
        ).json()["prompt"]
        self.assertIn(message.tool_calls[0].function.arguments + "}\n</tool_call>", prompt)
        self.assertIn("Sunny, 21 degrees.", prompt)

    def test_what_cannot_be_called_is_refused(self):
        for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.ask(tool_choice=choice)
            self.assertEqual(caught.exception.param, "tool_choice")
        picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(messages=[{"role": "user", "content": picture}])
        self.assertEqual(caught.exception.param, "messages[0].content[0].type")


@unittest.skipUnless(can_start_servers(), "needs a server of its own")
class Flags(unittest.TestCase):
    def test_the_operator_goes_before_the_template(self):
        server = Server(
            ["--chat-template", str(TEMPLATE), "--tool-call-parser", "glm47"]
            + ["--reasoning-parser", "none"]
        )
        try:
            info = call(server, "GET", "/server_info").json()
            self.assertEqual(info["tool_call_parser"], "glm47")
            self.assertIsNone(info["reasoning_parser"])
            self.assertRegex(server.log_text(), r"tool calls +glm47 \(as --tool-call-parser says\)")
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
