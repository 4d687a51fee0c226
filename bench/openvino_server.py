#!/usr/bin/env python3
"""OpenVINO GenAI's continuous batching behind the endpoint of peer_server.py.

The model folder is one that tools/bench/to_openvino.py wrote; it needs no tokenizer. The cache has
room for as many tokens as that of the other servers, there is no prefix cache, and a step takes up
to 1024 tokens, so that a prompt of the comparison is one chunk.
"""

import numpy
import openvino
import openvino_genai

import peer_server

_BLOCK = 32  # tokens of a cache block on CPUs


class Engine:
    gather_seconds = 0  # a request joins those that run at the next step

    def __init__(self, options):
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = 1024
        scheduler.max_num_seqs = options.concurrent
        scheduler.num_kv_blocks = options.concurrent * -(-options.context // _BLOCK)
        scheduler.enable_prefix_caching = False
        scheduler.dynamic_split_fuse = True
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(
            str(options.model), scheduler, "CPU",
            {"INFERENCE_NUM_THREADS": options.threads, "NUM_STREAMS": 1,
             "INFERENCE_PRECISION_HINT": options.precision,
             "KV_CACHE_PRECISION": options.cache_precision})
        self._running = {}  # handles by key

    def add(self, key, request):
        config = self._pipeline.get_config()
        config.do_sample = False
        config.max_new_tokens = request.tokens
        config.ignore_eos = request.ignore_eos
        prompt = openvino.Tensor(numpy.array([request.prompt], dtype=numpy.int64))
        self._running[key] = self._pipeline.add_request(key, prompt, config)

    def step(self):
        self._pipeline.step()
        statuses = openvino_genai.GenerationStatus
        finished = []
        for key, handle in list(self._running.items()):
            status = handle.get_status()
            if status == statuses.RUNNING:
                continue
            if status != statuses.FINISHED:
                raise RuntimeError(f"request {key} ended as {status}: the cache is too small")
            [output] = handle.read_all()
            finished.append((key, list(output.generated_ids)))
            del self._running[key]
        return finished


def main():
    parser = peer_server.parser(__doc__.splitlines()[0])
    parser.add_argument("--precision", default="f32",
                        help="of activations; f32 lets INT4 weights meet bytes (default: f32)")
    parser.add_argument("--cache-precision", default="f16", help="default: f16")
    options = parser.parse_args()
    peer_server.serve(Engine(options), options.host, options.port)


if __name__ == "__main__":
    main()
