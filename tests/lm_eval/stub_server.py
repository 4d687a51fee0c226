"""A server that knows no model: its answers follow from the prompt alone, so whoever asks the same
gets the same.

Bytes are its tokens, 256 ends a text. A log-probability depends on the token and the eight before
it; a generated text is one of ANSWERS.
"""

import http.server
import json
import threading
import zlib

END = 256
ANSWERS = [
    " 3 + 4 = 7.\n#### 7",
    " It costs $1,250. So #### 1,250.",
    " The answer is 18",
    " none at all",
    " #### -5 or #### 5",
    " 2.50 dollars, that is $2.50.",
    " #### $18",
    " = = = 9. ",
    "",
    " 1.\n2.\n3.\n#### 12.",
    " Ünïcode ４２ and 12",
]


def tokens_of(text):
    out = []
    for index, part in enumerate(text.split("<end>")):
        out += ([END] if index else []) + list(part.encode())
    return out


def log_probability(tokens, at):
    seen = ",".join(map(str, tokens[max(0, at - 8) : at + 1]))
    return -(zlib.crc32(seen.encode()) % 100003) / 10007


def scored(tokens, index):
    values = [log_probability(tokens, at) for at in range(len(tokens))]
    values = [None, *values[1:], -0.25]
    tops = [None if value is None else {"best": max(value, -3.0)} for value in values]
    return {"index": index, "text": "", "finish_reason": "length",
            "logprobs": {"token_logprobs": values, "top_logprobs": tops}}


def generated(tokens, index, stops):
    text = ANSWERS[zlib.crc32(bytes(token % 256 for token in tokens)) % len(ANSWERS)]
    for stop in stops or []:
        text = text.split(stop)[0]
    return {"index": index, "text": text, "finish_reason": "stop", "logprobs": None}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, body, status=200):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/v1/models":
            self.reply({"data": [{"id": "stub", "max_model_len": 2048}]})
        elif self.path == "/tokenizer_info":
            self.reply({"eos_token": "<end>", "bos_token": None, "pad_token": None,
                        "chat_template": None})
        else:
            self.reply({"error": {"message": "no such page"}}, 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            tokens = tokens_of(body["prompt"])
            self.reply({"tokens": tokens, "count": len(tokens), "max_model_len": 2048})
        elif self.path == "/v1/completions":
            self.reply(self.completion(body))
        elif self.path == "/v1/chat/completions" and self.server.chat:
            self.reply(self.server.chat(body))
        else:
            self.reply({"error": {"message": "no such page"}}, 404)

    def completion(self, body):
        prompts = body["prompt"]
        if isinstance(prompts, str):
            prompts = [tokens_of(prompts)]
        elif prompts and isinstance(prompts[0], int):
            prompts = [prompts]
        if body.get("echo"):
            choices = [scored(prompt, index) for index, prompt in enumerate(prompts)]
        else:
            choices = [generated(prompt, index, body.get("stop"))
                       for index, prompt in enumerate(prompts)]
        self.server.prompts += [bytes(t % 256 for t in prompt) for prompt in prompts]
        return {"object": "text_completion", "model": "stub", "choices": choices,
                "usage": {"prompt_tokens": sum(map(len, prompts)), "completion_tokens": 1}}

    def log_message(self, *_):
        pass


class Stub(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, chat=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.prompts = []
        self.chat = chat  # answers the bodies of chats
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"
