"""`python -m xpr` is the command `xpr`."""

import sys

from xpr.cli import main

if __name__ == "__main__":
    sys.exit(main())
