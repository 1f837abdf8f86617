"""The kit `acm` as the core sees it."""

from ralphgen.kits.acm.corpus_files import CorpusFiles
from ralphgen.kits.acm.finding import find_documents
from ralphgen.kits.acm.plan import KEY, plan_acm
from ralphgen.kits.acm.settings import AcmSettings
from ralphgen.kits.acm.tools import TOOLS
from ralphgen.planning.kit import Kit

ACM = Kit(
    key=KEY,
    tools=TOOLS,
    plan=plan_acm,
    settings=AcmSettings,
    find=find_documents,
    setup=CorpusFiles(),
)
