"""Scores a text: known good words count +1, known bad words −1."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.score(request) for request in requests]

    def score(self, request):
        tokens = pb_utils.get_input_tensor_by_name(request, "TOKENS").as_numpy()
        good = np.logical_and(tokens > 0, tokens < 10).sum(axis=1, keepdims=True)
        bad = (tokens > 10).sum(axis=1, keepdims=True)
        return pb_utils.InferenceResponse([pb_utils.Tensor("SCORE", (good - bad).astype(np.float32))])
