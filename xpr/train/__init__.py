"""Training: photos in, splats out."""

from xpr.train.config import TrainConfig as TrainConfig
from xpr.train.evaluate import Evaluation as Evaluation, evaluate as evaluate
from xpr.train.fit import Progress as Progress, Result as Result, fit as fit
