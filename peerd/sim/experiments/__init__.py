"""The papers' own experiments, each as a module that runs them at any scale and yields their figures as values."""
