"""One thread for torch in every test: results repeat, and two cores are enough for two test processes."""

import torch

torch.set_num_threads(1)
