"""`python -m conjoin` is `conjoin`."""

from conjoin.cli.main import main

raise SystemExit(main())
