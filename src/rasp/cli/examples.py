"""Help texts that are more than a sentence; they are shown without importing the command."""

SWEEP = """Models over sizes, batches, dtypes and devices, as one table; each cell in a process of its own.

  rasp sweep vgg-f mobilenet_v2 --scales 0.5:3:0.5 --batches 1,128 -o out

  rasp sweep 'timm:resnet*' --sizes 128:512:64 --measures static,memory -o out --table out.csv

  rasp sweep hf:config.json --tokens 128,1024 --dtypes bfloat16 -f md

  rasp sweep 'torchvision:*' -o out --shard 2/8 (the second of eight machines)

  rasp sweep models.py:net -i 1,3,224,224 --batches 1:64:9 --on 10.0.0.1:6379

A range is start:stop:step, the stop included. With -o what is done stays done: the same command goes on where it was
ended. Exit code 4: cells failed, and their rows say why."""

ZOO = """The built-in models, with their published numbers; `rasp zoo report` writes pages on them or on any others."""

REPORT = """Pages with tables and figures: an index, a scatter of MACs against parameters, and a page for each model.

  rasp zoo report --out docs/zoo

  rasp zoo report torchvision:resnet18 timm:vit_tiny_patch16_224 file.py:factory --out pages

  rasp zoo report package.module:Net -i 1,3,64,64 --out pages

A page has the model's cost at each size and batch, and a figure of its profile along its depth: parameter memory,
feature memory and flops of every layer. Models that could not be run are named in the index, with the reason."""
