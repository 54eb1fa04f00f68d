"""The paper's tasks: data, loss, score, and the score of a model that remembers nothing."""
