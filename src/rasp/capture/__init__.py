"""torch → Trace: run a model once and write down what happened."""
