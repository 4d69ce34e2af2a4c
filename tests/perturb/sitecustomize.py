"""Python imports this module at start: it perturbs the local models in child processes too."""

import perturbation

perturbation.install()
