"""A client of job J for Flower, in a module of its own: Ray's workers import it once and keep model and data."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from job import SAMPLES, CharLSTM, local_steps

app = ClientApp()
model, rng = CharLSTM(), np.random.default_rng()


@app.train()
def train(message: Message, context: Context) -> Message:
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    local_steps(model, int(context.node_config["partition-id"]), rng)
    reply = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": SAMPLES})}
    return Message(content=RecordDict(reply), reply_to=message)
