"""The references that derived programs are tested on: what users of recommendation models write."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from lowered_programs import Case

Tensor = torch.Tensor


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def softmax_rows(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def softmax_columns(x: Tensor) -> Tensor:
    return x.softmax(0)


def written_out_softmax(x: Tensor) -> Tensor:
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def cosine(x: Tensor, y: Tensor) -> Tensor:
    return F.cosine_similarity(x, y, dim=-1)


def dense_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x @ weight + bias)


def distances(x: Tensor, y: Tensor) -> Tensor:
    return ((x[:, None] - y[None]) ** 2).sum(-1).sqrt()


def expanded_distances(x: Tensor, y: Tensor) -> Tensor:
    return (x * x).sum(-1)[:, None] + (y * y).sum(-1)[None] - 2 * x @ y.T


def log_sum_exp(x: Tensor) -> Tensor:
    return torch.logsumexp(x, dim=1)


def masked_mean(x: Tensor, lengths: Tensor) -> Tensor:
    mask = torch.arange(x.shape[1])[None, :] < lengths[:, None]
    return (x * mask[..., None]).sum(1) / lengths.clamp(min=1)[:, None]


def embedding_sum(table: Tensor, picked: Tensor) -> Tensor:
    return table[picked].sum(1)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value)


def causal_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = torch.einsum("bnd,bmd->bnm", query, key) / query.shape[-1] ** 0.5
    mask = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool).tril()
    return torch.einsum("bnm,bme->bne", scores.masked_fill(~mask, float("-inf")).softmax(-1), value)


def two_layers(x: Tensor, first: Tensor, bias: Tensor, second: Tensor) -> Tensor:
    return F.linear(F.silu(F.linear(x, first, bias)), second)


def moments(x: Tensor) -> dict[str, Any]:
    mean = x.mean(1)
    return {"mean": mean, "deviation": x.std(1), "normal": (x - mean[:, None]) / (x.std(1, keepdim=True) + 1.0)}


def best_of_row(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    best, at = x.max(-1)
    return best, at, (x > 0).any(-1)


def joined_features(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    return torch.cat([x, torch.sigmoid(y) * 2, x * bias], dim=1)


def stacked_sum(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(torch.stack([x, y, x - y], dim=1)).sum(-1)


def segment_add(x: Tensor, rows: Tensor, batch: int) -> Tensor:
    return torch.zeros(batch, x.shape[1], dtype=x.dtype).index_add_(0, rows, x)


def scattered(x: Tensor, columns: Tensor) -> Tensor:
    return torch.zeros_like(x).scatter_add(1, columns, x) + x


def bag(table: Tensor, picked: Tensor, offsets: Tensor) -> Tensor:
    return F.embedding_bag(picked, table, offsets, mode="mean", include_last_offset=True)


def picked_columns(x: Tensor, columns: Tensor) -> Tensor:
    return torch.gather(x, 1, columns) * 2 + x.index_select(1, columns[0])


def running(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cumsum(x, dim=1), torch.cumsum(x, dim=0)[-1] * 2


def heads(x: Tensor, weight: Tensor) -> Tensor:
    batch, rows, _ = x.shape
    split = (x @ weight).view(batch, rows, 4, -1).transpose(1, 2)
    return split.pow(2).mean(-1).sqrt()


def merged(x: Tensor) -> Tensor:
    return x.transpose(1, 2).reshape(x.shape[0], -1) * 0.5


def chosen(x: Tensor, y: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    low = torch.where(keep, torch.minimum(x, y), torch.maximum(x, -y))
    return low.clamp(-0.5, 1.5), torch.floor(x * 3).to(torch.int64) % 5


def bucketed(x: Tensor, edges: Tensor) -> Tensor:
    return torch.bucketize(x, torch.cumsum(edges.abs(), 0))


def cross_entropy(x: Tensor, labels: Tensor) -> Tensor:
    return -F.log_softmax(x, -1).gather(1, labels[:, None]).squeeze(1)


def normalised_product(x: Tensor, y: Tensor) -> Tensor:
    return F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).T


def factorised(x: Tensor) -> Tensor:
    return 0.5 * (x.sum(1).square() - x.square().sum(1)).sum(-1)


def upper_pairs(x: Tensor) -> Tensor:
    return torch.bmm(x, x.transpose(1, 2)).triu(1).flatten(1)


def updated(x: Tensor, y: Tensor) -> Tensor:
    out = x.clone()
    out[:, 0] = y[:, 0]
    out[1:] += 1
    return out * 2


def instance_norm(x: Tensor) -> Tensor:
    mean, variance = x.mean((0, 2), keepdim=True), x.var((0, 2), keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + 1e-5)


def activations(x: Tensor) -> Tensor:
    return (
        F.softplus(x)
        + F.elu(x)
        + F.leaky_relu(x, 0.1)
        + torch.tanh(x) * F.logsigmoid(x)
        + x.sign() * torch.log1p(x.abs())
    )


def group_norm(x: Tensor) -> Tensor:
    return F.group_norm(x[:, :, None], 2, eps=0.1)[:, :, 0]


def target_attention(query: Tensor, keys: Tensor, lengths: Tensor, weight: Tensor) -> Tensor:
    wide = query[:, None].expand_as(keys)
    scores = torch.sigmoid(torch.cat([wide, keys, wide * keys], -1)) @ weight
    mask = torch.arange(keys.shape[1])[None] < lengths[:, None]
    return torch.einsum("bl,bld->bd", scores.masked_fill(~mask, -1e9).softmax(-1), keys)


def tabled(x: Tensor) -> Tensor:
    return x[:, :, None] * torch.tensor([0.5, -2.0, 3.0], dtype=x.dtype)


def padded(x: Tensor) -> Tensor:
    return F.pad(x, (1, 2), value=0.5).exp()


MATRIX = ({"rows": 6, "dim": 37}, {"rows": 1, "dim": 1}, {"rows": 13, "dim": 8}, {"rows": 2, "dim": 130})
PAIR = ({"n": 5, "m": 7, "dim": 6}, {"n": 1, "m": 9, "dim": 1}, {"n": 8, "m": 3, "dim": 31})
DENSE = ({"rows": 6, "dim": 9, "width": 5}, {"rows": 1, "dim": 1, "width": 3}, {"rows": 3, "dim": 40, "width": 17})
BATCH = ({"batch": 3, "length": 5, "dim": 7}, {"batch": 1, "length": 1, "dim": 1}, {"batch": 4, "length": 9, "dim": 16})
ATTENTION = (
    {"batch": 2, "n": 5, "m": 6, "dim": 4, "width": 3},
    {"batch": 1, "n": 1, "m": 1, "dim": 1, "width": 1},
    {"batch": 3, "n": 4, "m": 9, "dim": 8, "width": 5},
)
BAG = ({"batch": 4, "total": 19, "entries": 11, "dim": 6}, {"batch": 9, "total": 5, "entries": 3, "dim": 1})
HEADS = ({"batch": 2, "rows": 3, "dim": 5, "width": 8}, {"batch": 1, "rows": 7, "dim": 2, "width": 4})

CASES = (
    Case(rms_norm, ["x: rows dim", "weight: dim"], ["out: rows dim"], MATRIX),
    Case(softmax_rows, ["x: rows dim"], ["out: rows dim"], MATRIX),
    Case(softmax_columns, ["x: rows dim"], ["out: rows dim"], MATRIX),
    Case(written_out_softmax, ["x: rows dim"], ["out: rows dim"], MATRIX),
    Case(cosine, ["x: rows dim", "y: rows dim"], ["out: rows"], MATRIX),
    Case(dense_gelu, ["x: rows dim", "weight: dim width", "bias: width"], ["out: rows width"], DENSE),
    Case(distances, ["x: n dim", "y: m dim"], ["out: n m"], PAIR),
    Case(expanded_distances, ["x: n dim", "y: m dim"], ["out: n m"], PAIR),
    Case(log_sum_exp, ["x: rows dim"], ["out: rows"], MATRIX),
    Case(
        masked_mean,
        ["x: batch length dim", "lengths int64 batch"],
        ["out: batch dim"],
        BATCH,
        {"lengths": "length + 1"},
    ),
    Case(embedding_sum, ["table: length dim", "picked int64 batch 3"], ["out: batch dim"], BATCH, {"picked": "length"}),
    Case(layer_norm, ["x: batch length dim", "weight: dim", "bias: dim"], ["out: batch length dim"], BATCH),
    Case(
        attention,
        ["query: batch n dim", "key: batch m dim", "value: batch m width"],
        ["out: batch n width"],
        ATTENTION,
    ),
    Case(
        causal_attention,
        ["query: batch n dim", "key: batch m dim", "value: batch m width"],
        ["out: batch n width"],
        ATTENTION,
    ),
    Case(two_layers, ["x: rows dim", "first: width dim", "bias: width", "second: 3 width"], ["out: rows 3"], DENSE),
    Case(
        moments,
        ["x: rows dim"],
        ["mean: rows", "deviation: rows", "normal: rows dim"],
        [s for s in MATRIX if s["dim"] > 1],
    ),
    Case(best_of_row, ["x: rows dim"], ["best: rows", "at int64 rows", "positive bool rows"], MATRIX),
    Case(joined_features, ["x: rows dim", "y: rows width", "bias: dim"], ["out: rows dim+width+dim"], DENSE),
    Case(stacked_sum, ["x: rows dim", "y: rows dim"], ["out: rows 3"], MATRIX),
    Case(segment_add, ["x: length dim", "rows int64 length"], ["out: batch dim"], BATCH, {"rows": "batch"}),
    Case(scattered, ["x: rows dim", "columns int64 rows dim"], ["out: rows dim"], MATRIX, {"columns": "dim"}),
    Case(
        bag,
        ["table: entries dim", "picked int64 total", "offsets int64 batch+1"],
        ["out: batch dim"],
        BAG,
        {"picked": "entries", "offsets": "total"},
    ),
    Case(picked_columns, ["x: rows dim", "columns int64 rows 4"], ["out: rows 4"], MATRIX, {"columns": "dim"}),
    Case(running, ["x: rows dim"], ["out: rows dim", "last: dim"], MATRIX),
    Case(heads, ["x: batch rows dim", "weight: dim 8"], ["out: batch 4 rows"], HEADS),
    Case(merged, ["x: rows 3 dim"], ["out: rows dim+dim+dim"], MATRIX),
    Case(chosen, ["x: rows dim", "y: dim", "keep bool rows dim"], ["out: rows dim", "steps int64 rows dim"], MATRIX),
    Case(bucketed, ["x: rows dim", "edges: 6"], ["out int64 rows dim"], MATRIX),
    Case(cross_entropy, ["x: rows dim", "labels int64 rows"], ["out: rows"], MATRIX, {"labels": "dim"}),
    Case(normalised_product, ["x: n dim", "y: m dim"], ["out: n m"], PAIR),
    Case(factorised, ["x: batch length dim"], ["out: batch"], BATCH),
    Case(upper_pairs, ["x: batch 4 dim"], ["out: batch 16"], [{"batch": 3, "dim": 5}, {"batch": 1, "dim": 1}]),
    Case(updated, ["x: rows dim", "y: rows dim"], ["out: rows dim"], MATRIX),
    Case(instance_norm, ["x: batch length dim"], ["out: batch length dim"], BATCH),
    Case(activations, ["x: rows dim"], ["out: rows dim"], MATRIX),
    Case(group_norm, ["x: rows dim"], ["out: rows dim"], [{"rows": 6, "dim": 8}, {"rows": 3, "dim": 4}]),
    Case(
        target_attention,
        ["query: batch dim", "keys: batch length dim", "lengths int64 batch", "weight: dim+dim+dim"],
        ["out: batch dim"],
        BATCH,
        {"lengths": "length + 1"},
    ),
    Case(tabled, ["x: rows dim"], ["out: rows dim 3"], MATRIX),
    Case(padded, ["x: rows dim"], ["out: rows dim+3"], MATRIX),
)
