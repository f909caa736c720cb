"""Names a score: positive, negative or neutral."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.label(request) for request in requests]

    def label(self, request):
        scores = pb_utils.get_input_tensor_by_name(request, "SCORE").as_numpy()
        labels = np.where(scores > 0, b"positive", np.where(scores < 0, b"negative", b"neutral"))
        return pb_utils.InferenceResponse([pb_utils.Tensor("LABEL", labels.astype(object))])
