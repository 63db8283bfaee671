"""Entry point of the app on a device."""

from startpages.app import main

if __name__ == "__main__":
    main().main_loop()
