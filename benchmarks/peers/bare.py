"""One of two plain PyTorch processes that share a round's m clients: no federation, no exchange."""

import numpy as np
from gate import Gate
from job import WORKERS, CharLSTM, local_steps, m, n

model = CharLSTM()
theta = {name: value.clone() for name, value in model.state_dict().items()}
rng = np.random.default_rng()
gate = Gate()
while True:
    gate.wait()
    for i in rng.choice(n, m // WORKERS, replace=False):
        model.load_state_dict(theta)
        local_steps(model, int(i), rng)
