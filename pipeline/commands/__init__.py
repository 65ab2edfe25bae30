"""The commands of the command line, one file each: `run`, and `add_arguments` if the command has options.

Slow imports are inside `run`.
"""

COMMANDS = {
    "facts": "record the machine and the state of the user's files, which DVC cannot see",
    "corpus": "get the sentence pairs, filter and split them",
    "bpe": "learn the vocabulary and encode the corpus",
    "fit": "train a family (LightningCLI)",
    "validate": "loss and BLEU of a family's weights on the validation split (LightningCLI)",
    "predict": "translate a split with a family's weights by its quick search (LightningCLI)",
    "test": "translate and score the test split under every decoder of a family (LightningCLI)",
    "models": "write every system as a model folder",
    "peers": "translate and score the test split with other libraries and the baseline's weights",
    "distill": "translate the training source with the teacher",
    "align": "align the words of the training pairs, or of two text files (fast_align)",
    "counts": "count aligned pairs: the lattice's candidates and lengths",
    "speed": "time all systems under their decoders, and other libraries, side by side",
    "analyse": "the papers' tables and figures of this run",
    "report": "write the table, the picture and the page",
    "translate": "translate text line by line, or a document (.po, .pot, .tmx)",
    "serve": "translate over HTTP, with a page that compares the decoders",
    "explain": "show how drafts are verified, call by call",
    "ddg": "show which token of a translation depends on which (Jacobi decoding)",
    "tune": "choose a decoder for this machine, or the settings of one that drafts or has a length penalty",
    "score": "log-probability of given translations",
    "average": "average checkpoints of one family into one",
    "export": "write a family as a model folder, or as a model of transformers or of CTranslate2; or the corpus",
    "repro": "run the whole pipeline of a profile with DVC",
    "completion": "print a shell's completion script",
}
"""Their help, each in a few words. A command is imported only when it is called."""
