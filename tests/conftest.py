"""Limits torch to one thread in every test: results repeat, and two test processes fit on two cores."""

import torch

torch.set_num_threads(1)
