"""One step with parameters: what a layer repeats over time or depth."""
