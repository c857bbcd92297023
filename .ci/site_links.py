"""For the site alone (mkdocs): files of the repository that are no pages are named, not linked."""

import re

OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./[^)]*\)")


def on_page_markdown(markdown, **_):
    return OUTSIDE.sub(r"\1", markdown)
