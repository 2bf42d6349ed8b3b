"""python -m fedmpi"""

from fedmpi.cli import main

if __name__ == "__main__":
    main()
