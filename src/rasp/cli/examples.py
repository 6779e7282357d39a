"""Help texts that are more than a sentence; they are shown without importing the command."""

SWEEP = """Models over sizes, batches, dtypes and devices, as one table; each cell in a process of its own.

  rasp sweep vgg-f mobilenet_v2 --scales 0.5:3:0.5 --batches 1,128 -o out

  rasp sweep 'timm:resnet*' --sizes 128:512:64 --measures static,memory -o out --table out.csv

  rasp sweep hf:config.json --tokens 128,1024 --dtypes bfloat16 -f md

  rasp sweep 'torchvision:*' -o out --shard 2/8 (the second of eight machines)

  rasp sweep models.py:net -i 1,3,224,224 --batches 1:64:9 --on 10.0.0.1:6379

A range is start:stop:step, the stop included. With -o what is done stays done: the same command goes on where it was
ended. Exit code 4: cells failed, and their rows say why."""
