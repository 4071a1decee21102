"""A fresh process to one embedding with pjrtd: `cold_minilm_pjrtd.py TARGET`: import, attach to the session that keeps the
weights, tokenize, embed."""

import sys

from minilm_inputs import SENTENCE, result

import pjrtd
from embed import Embedder
from minilm_weights import model_folder

client = pjrtd.Client.create(sys.argv[1]).__enter__()
(vector,) = Embedder(client.session("minilm", ttl=600), model_folder())([SENTENCE])
print(result(vector), flush=True)
