"""response_format: answers that are valid by construction."""

import json

import jsonschema
import openai

from harness import Case, chat, complete, metrics, quick, stream, together

CHAT = "/v1/chat/completions"
ASK = "Describe a person you know, as JSON."

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["kind", "tall", "loud"]}, "maxItems": 3},
        "home": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/place"}]},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"city": {"type": "string", "pattern": "^[A-Z][a-z]{1,11}$"}},
            "required": ["city"],
        }
    },
}


def schema_format(schema, name="answer", **more):
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, **more}}


class Schemas(Case):
    def check(self, text, reason, schema):
        self.assertIn(reason, ("stop", "length"))
        if reason == "stop":
            jsonschema.validate(json.loads(text), schema)
        return reason == "stop"

    def whole(self, **fields):
        answer = chat(self.server, ASK, response_format=schema_format(PERSON), **fields)
        self.assertEqual(answer.status, 200, answer.body[:500])
        return self.check(answer.text, answer.choice["finish_reason"], PERSON)

    def streamed(self, **fields):
        answer = stream(
            self.server,
            CHAT,
            messages=[{"role": "user", "content": ASK}],
            response_format=schema_format(PERSON),
            **fields,
        )
        self.assertTrue(answer.done)
        return self.check(answer.text, answer.finish_reason, PERSON)

    # C139
    def test_eight_at_once_greedy_and_drawn_streamed_and_whole_are_all_valid(self):
        jobs = []
        for seed in range(quick(16, 8)):
            fields = {"temperature": seed % 2, "seed": seed, "max_tokens": 150}
            ask = self.whole if seed % 4 < 2 else self.streamed
            jobs.append(lambda ask=ask, fields=fields: ask(**fields))
        jobs.insert(3, lambda: chat(self.server, "Say hello.", temperature=0, max_tokens=8).text)
        plain = chat(self.server, "Say hello.", temperature=0, max_tokens=8).text
        results = together(jobs, 8)
        self.assertEqual(results.pop(3), plain, "a free answer among them is the one alone")
        self.assertGreater(sum(results), len(results) // 2, "most come to their end")

    def test_the_same_seed_gives_the_same_answer_alone_and_among_others(self):
        fields = {"response_format": schema_format(PERSON), "temperature": 1, "max_tokens": 60}
        alone = chat(self.server, ASK, seed=5, **fields).text
        others = together(
            [lambda s=s: chat(self.server, ASK, seed=s, **fields).text for s in (5, 6, 5, 7)], 4
        )
        self.assertEqual([others[0], others[2]], [alone, alone])

    def test_every_choice_is_valid(self):
        answer = chat(
            self.server,
            ASK,
            response_format=schema_format({"enum": ["yes", "no", "it depends"]}),
            n=4,
            temperature=1,
            seed=2,
        )
        texts = [choice["message"]["content"] for choice in answer.json()["choices"]]
        self.assertEqual(len(texts), 4)
        for text in texts:
            self.assertIn(json.loads(text), ("yes", "no", "it depends"))

    def test_json_object_and_completions(self):
        answer = complete(
            self.server,
            "A JSON object with one key:",
            response_format={"type": "json_object"},
            max_tokens=quick(120, 40),
            temperature=0,
        )
        self.assertTrue(answer.text.lstrip().startswith("{"), answer.text)
        if answer.choice["finish_reason"] == "stop":
            self.assertIsInstance(json.loads(answer.text), dict)

    def test_an_answer_cut_short_says_length(self):
        answer = chat(
            self.server, ASK, response_format=schema_format(PERSON), max_tokens=4, temperature=0
        )
        self.assertEqual(answer.choice["finish_reason"], "length")

    def test_min_tokens_and_ignore_eos_do_not_hold_a_complete_answer(self):
        answer = chat(
            self.server,
            ASK,
            response_format=schema_format({"const": 7}),
            min_tokens=50,
            ignore_eos=True,
            max_tokens=60,
        )
        self.assertEqual((answer.text, answer.choice["finish_reason"]), ("7", "stop"))

    def test_masks_and_compilations_are_counted(self):
        chat(self.server, ASK, response_format=schema_format({"type": "null"}))
        _, sums = metrics(self.server)
        self.assertGreater(sums["bulkhead_constraint_mask_seconds_count"], 0)
        self.assertGreater(sums["bulkhead_constraint_compile_seconds_count"], 0)
        self.assertGreater(sums["bulkhead_constraints_cached"], 0)
        self.assertGreater(sums["bulkhead_constraints_cached_bytes"], 0)


class Client(Case):
    def test_the_openai_client_gets_valid_answers(self):
        client = openai.OpenAI(
            base_url=self.server.url + "/v1", api_key=self.server.key or "none", max_retries=0
        )
        answer = client.chat.completions.create(
            model=client.models.list().data[0].id,
            messages=[{"role": "user", "content": ASK}],
            response_format=schema_format({"type": "boolean"}, strict=True),
            temperature=0,
        )
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertIsInstance(json.loads(answer.choices[0].message.content), bool)


class Refusals(Case):
    def test_every_malformed_format_is_named(self):
        field = "response_format"
        inner = field + ".json_schema"
        cases = [
            ("json_object", "invalid_type", field),
            ({}, "missing_required_parameter", field + ".type"),
            ({"type": "yaml"}, "invalid_value", field + ".type"),
            ({"type": "json_schema"}, "missing_required_parameter", inner),
            ({"type": "json_schema", "json_schema": []}, "invalid_type", inner),
            (
                {"type": "json_schema", "json_schema": {"schema": {}}},
                "missing_required_parameter",
                inner + ".name",
            ),
            (
                {"type": "json_schema", "json_schema": {"name": "a"}},
                "missing_required_parameter",
                inner + ".schema",
            ),
            (schema_format({}, name="a b"), "invalid_value", inner + ".name"),
            (schema_format({}, strict="yes"), "invalid_type", inner + ".strict"),
            (schema_format("{}"), "invalid_type", inner + ".schema"),
            (schema_format({"type": "strng"}), "invalid_value", inner + ".schema"),
            (schema_format({"not": {}}), "unsupported_parameter", inner + ".schema"),
        ]
        for value, code, param in cases:
            with self.subTest(value=value):
                self.assert_error(chat(self.server, "x", response_format=value), 400, code, param)


class Hostile(Case):
    # C144, C145, C146
    def test_a_schema_that_explodes_is_refused_and_the_server_goes_on(self):
        doubling = {
            f"d{i}": {"prefixItems": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(400)
        }
        doubling["d400"] = {}
        schemas = [
            {"type": "string", "pattern": "(" * 30000 + "a" + ")" * 30000},
            {"type": "string", "pattern": "((((a{100}){100}){100}){100})"},
            {"type": "string", "pattern": "foo**"},
            {"type": "array", "minItems": 10**9, "items": {}},
            {"enum": list(range(5000))},
            {"$ref": "#/$defs/d0", "$defs": doubling},
            {"$ref": "#"},
        ]
        for schema in schemas:
            answer = chat(self.server, "x", response_format=schema_format(schema))
            self.assertEqual(answer.status, 400, answer.body[:300])
            self.assertEqual(answer.error["param"], "response_format.json_schema.schema")
        self.assertEqual(complete(self.server, "One two", max_tokens=2).status, 200)
