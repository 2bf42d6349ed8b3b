"""An oracle: Algorithm 1 written out again, sharing no code with fedmpi. numpy for quadratic, plain torch for the LSTM.

It draws from the same random numbers (Philox, keyed as fedmpi documents), so S_t and ω must come out exactly.
"""

import numpy as np
import torch


def numbers(seed, purpose, t=0, client=0):
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, t, client]))


def draw(scheme, p, m, seed, t):
    """{client: weight} of round t."""
    rng, n = numbers(seed, 2, t), len(p)
    if scheme == "full":
        return dict(enumerate(p))
    if scheme == "md":
        edges = np.cumsum(p) / np.cumsum(p)[-1]
        drawn = [int(np.argmax(u < edges)) for u in rng.random(m)]
        return {i: drawn.count(i) / m for i in sorted(set(drawn))}
    if scheme == "binomial":
        count = rng.binomial(n, m / n)
    elif scheme == "uniform":
        count = m
    else:
        raise ValueError(scheme)
    return {int(i): n * p[i] / m for i in sorted(rng.choice(n, count, replace=False, shuffle=False))}


def quadratic_update(theta, minimum, K, eta_l, mu):
    moved = theta.astype(float)
    for _ in range(K):
        moved = moved - eta_l * ((moved - minimum) + mu * (moved - theta))
    return moved - theta


def lstm_model(theta):
    """A stock torch model whose parameters, in the order embedding, LSTM, linear, are those of the flat θ."""
    model = torch.nn.ModuleList([torch.nn.Embedding(100, 8), torch.nn.LSTM(8, 100, 2), torch.nn.Linear(100, 100)])
    torch.nn.utils.vector_to_parameters(torch.tensor(theta), model.parameters())
    return model


def lstm_update(theta, text, seed, t, i, K, B, eta_l):
    """Δ_i of K steps of torch.optim.SGD on batches of windows of `text` (uint8 numbers)."""
    model, rng = lstm_model(theta), numbers(seed, 3, t, i)
    sgd = torch.optim.SGD(model.parameters(), lr=eta_l)
    for _ in range(K):
        windows = len(text) - 80
        starts = rng.choice(windows, B, replace=False, shuffle=False) if windows > B else range(windows)
        x = torch.tensor(np.array([text[s : s + 80] for s in starts]), dtype=torch.long).T
        y = torch.tensor(np.array([text[s + 80] for s in starts]), dtype=torch.long)
        embedding, lstm, linear = model
        scores = linear(lstm(embedding(x))[0][-1])
        sgd.zero_grad()
        torch.nn.functional.cross_entropy(scores, y).backward()
        sgd.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach().numpy().astype(float) - theta


def federate(theta, update, scheme, p, m, seed, T, eta_g):
    """θᵀ and the cohorts of T rounds; update(theta, t, i) is a client's local work."""
    cohorts = []
    for t in range(T):
        cohorts.append(draw(scheme, p, m, seed, t))
        step = sum((w * update(theta, t, i) for i, w in cohorts[-1].items()), np.zeros(len(theta)))
        theta = (theta + eta_g * step).astype(np.float32)
    return theta, cohorts
