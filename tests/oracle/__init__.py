"""The paper's equations transcribed a second time, in scalar NumPy loops, to test the library."""
