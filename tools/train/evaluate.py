#!/usr/bin/env python3
"""Scores a checkpoint, or a server that serves it, on the held-out sets by greedy answers.

    evaluate.py FOLDER         by transformers, whose logits are compared with our network's first
    evaluate.py --url http://127.0.0.1:30000      by any server with the OpenAI chat API
    evaluate.py --write DIR                       nothing: writes the sets, for `bulkhead eval`

Prints one line a set and, with --json, writes the scores. Exit code 1: a required set is below
--goal, or the logits differ.
"""

import argparse
import concurrent.futures
import json
import pathlib
import sys
import urllib.request

import held_out
import prose

LOGITS_APART = 1e-4  # at most, of logits of some tens
ANSWER_TOKENS = 200


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, nargs="?", help="checkpoint folder")
    parser.add_argument("--url", help="score this server instead")
    parser.add_argument("--write", type=pathlib.Path, metavar="DIR",
                        help="write the sets as DIR/SET.jsonl (bulkhead eval conversations reads "
                             "eval/conversations of its --data) and score nothing")
    parser.add_argument("--model", help="name of the model there (default: the first it lists)")
    parser.add_argument("--count", type=int, default=100, help="examples of each set")
    parser.add_argument("--sets", nargs="*", choices=list(held_out.SETS),
                        default=list(held_out.SETS))
    parser.add_argument("--goal", type=float, default=0.9)
    parser.add_argument("--parallel", type=int, default=16, help="requests, or rows, at a time")
    parser.add_argument("--text", type=pathlib.Path,
                        help="a text file whose stretches are the filler, instead of own prose")
    parser.add_argument("--json", type=pathlib.Path, help="write the scores here")
    parser.add_argument("--show", type=int, default=0, help="wrong answers to print, of each set")
    options = parser.parse_args()
    if sum(map(bool, (options.folder, options.url, options.write))) != 1:
        parser.error("name a folder, a --url or --write")
    return options


class Server:
    """Answers of an OpenAI-compatible server."""

    def __init__(self, url, model, parallel):
        self.url, self.parallel = url.rstrip("/"), parallel
        self.model = model or self._get("/v1/models")["data"][0]["id"]

    def _get(self, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data,
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            return json.load(reply)

    def _answer(self, example):
        body = {"model": self.model, "messages": example.messages[:-1], "temperature": 0,
                "max_tokens": ANSWER_TOKENS}
        if example.tools:
            body["tools"] = example.tools
        return self._get("/v1/chat/completions", body)["choices"][0]["message"]

    def answers(self, examples):
        with concurrent.futures.ThreadPoolExecutor(self.parallel) as pool:
            return list(pool.map(self._answer, examples))


class Folder:
    """Answers of transformers, in FP32."""

    def __init__(self, folder, parallel):
        import torch
        import transformers
        import chat_format
        import vocabulary
        self.torch, self.chat_format, self.parallel = torch, chat_format, parallel
        config = json.loads((folder / "config.json").read_text())
        self.pad, self.end = config["pad_token_id"], config["eos_token_id"]
        # transformers knows this architecture by DeepSeek's name alone.
        known = {key: value for key, value in config.items()
                 if key not in ("architectures", "model_type", "torch_dtype")}
        self.encoding = vocabulary.read(folder)
        self.folder = folder
        self.model = transformers.DeepseekV3ForCausalLM.from_pretrained(
            folder, config=transformers.DeepseekV3Config(**known), dtype=torch.float32).eval()

    def apart(self):
        """Largest difference between transformers' logits and those of the network trained."""
        import checkpoint
        from network import Network
        network = Network().eval()
        network.load_state_dict(checkpoint.read(self.folder, network.state_dict()))
        example = held_out.examples("tool_answers", 1)[0]
        ids, _ = self.chat_format.encode(self.encoding, self.chat_format.pieces(example))
        ids = self.torch.tensor(ids)
        with self.torch.no_grad():
            ours, theirs = network(ids, [len(ids)]), self.model(ids[None]).logits[0]
        return (ours - theirs).abs().max().item()

    def answers(self, examples):
        prompts = [self.chat_format.encode(self.encoding, self.chat_format.prompt_pieces(e))[0]
                   for e in examples]
        order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
        made = [None] * len(prompts)
        for start in range(0, len(order), self.parallel):
            rows = order[start:start + self.parallel]
            for row, message in zip(rows, self._generate([prompts[row] for row in rows])):
                made[row] = message
        return made

    def _generate(self, prompts):
        width = max(map(len, prompts))
        ids = self.torch.tensor([[self.pad] * (width - len(p)) + p for p in prompts])
        out = self.model.generate(ids, attention_mask=(ids != self.pad).long(), do_sample=False,
                                  max_new_tokens=ANSWER_TOKENS, eos_token_id=self.end,
                                  pad_token_id=self.pad)
        for row in out[:, width:].tolist():
            end = row.index(self.end) if self.end in row else len(row)
            yield held_out.parse(self.encoding.decode(row[:end]))


def sets_of(options):
    filler = prose.own_prose
    if options.text:
        filler = prose.stretches_of([options.text.read_text(encoding="utf-8")])
    for name in options.sets:
        yield name, held_out.examples(name, options.count, filler)


def write_sets(options):
    options.write.mkdir(parents=True, exist_ok=True)
    for name, examples in sets_of(options):
        lines = [json.dumps({"id": str(index), "messages": example.messages[:-1],
                             "tools": example.tools or [], "expected": example.messages[-1]})
                 for index, example in enumerate(examples)]
        (options.write / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def score(answerer, options):
    scores = {}
    for name, examples in sets_of(options):
        answers = answerer.answers(examples)
        wrong = [(example.messages[-1], answer) for example, answer in zip(examples, answers)
                 if not held_out.is_right(example.messages[-1], answer)]
        scores[name] = 1 - len(wrong) / len(examples)
        print(f"{name}: {len(examples) - len(wrong)} of {len(examples)}", flush=True)
        for wanted, got in wrong[:options.show]:
            print(f"  wanted {json.dumps(wanted)[:300]}\n  got    {json.dumps(got)[:300]}")
    return scores


def main():
    options = parse_arguments()
    if options.write:
        write_sets(options)
        return 0
    failed = False
    if options.url:
        answerer = Server(options.url, options.model, options.parallel)
        result = {"answers_by": "server"}
    else:
        answerer = Folder(options.folder, options.parallel)
        result = {"answers_by": "transformers, FP32, greedy", "logits_apart": answerer.apart()}
        print(f"logits differ from transformers' by at most {result['logits_apart']:.1e}")
        failed = result["logits_apart"] > LOGITS_APART
    scores = score(answerer, options)
    result.update(count=options.count, filler=options.text.name if options.text else "own prose",
                  scores=scores)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    below = [name for name in held_out.REQUIRED if scores.get(name, 1.0) < options.goal]
    if below:
        print(f"below {options.goal:.0%}: {', '.join(below)}")
    return 1 if failed or below else 0


if __name__ == "__main__":
    sys.exit(main())
