"""Output checking for research centers: results are judged as they are computed, remembered, and signed.

`ResearchProject` computes tables, models and pictures and judges each by a policy and against everything that the
project told before; `Request` is the folder that a checker signs.
"""

from discretion.outputs.judge import OutputFinding, OutputLimits
from discretion.outputs.project import Request, ResearchOutput, ResearchProject

__all__ = ["OutputFinding", "OutputLimits", "Request", "ResearchOutput", "ResearchProject"]
