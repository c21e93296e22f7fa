"""Bad command lines: each is one line on stderr, exit code 2, and leaves nothing behind."""

import os
import pathlib
import shlex
import sys

import pytest

from cgjax import experiments
from cgjax.main import main

# arguments | words of the message, by semicolons. `S` stands for --config=sprites:smoke, `V`, `K`
# for those of vectors and kernels, `I` for kernels:addition_mnist,smoke, `A` for support:smoke.
TABLE = r"""
# --- nothing to run, flags that are unknown or contradict each other
                                        | nothing to run; --config=sprites; --list
--workdir=w                             | nothing to run
--config.train.steps=4                  | nothing to run
--dry_run                               | nothing to run
--extend                                | nothing to run
--config=                               | nothing to run
--confg=sprites                         | unknown argument '--confg=sprites'; '--config'
--configs=sprites                       | unknown argument; '--config'
--sprites                               | unknown argument '--sprites'
sprites                                 | unknown argument 'sprites'; did you mean --config=sprites
sprites:diagonal,smoke                  | did you mean --config=sprites:diagonal,smoke
S extra                                 | unknown argument 'extra'; --config=<family>:<row>,<size>
S --seeds=3                             | unknown argument '--seeds=3': a key of the row
--config=sprites,smoke                  | a row or size follows a colon, sprites:smoke
--config=sprites:smoke,demo             | the row comes before the size, demo,smoke
S --workdir=file.txt                    | --workdir=file.txt is a file: give the name of a folder
S --worker=w                            | unknown argument '--worker=w'
S --force_resume                        | unknown argument '--force_resume'
S --dryrun                              | unknown argument '--dryrun'; '--dry_run'
S --start-anew                          | unknown argument; '--start_anew'
S --ext                                 | unknown argument '--ext'; '--extend'
S -x                                    | unknown argument '-x'
S --extend=yes                          | --extend; ignored explicit argument
S --dry_run=1                           | --dry_run; ignored explicit argument
--config                                | --config: expected one argument
--config --list                         | --config: expected one argument
S --workdir                             | --workdir: expected one argument
S --workdir=                            | --workdir needs the name of a folder
S S                                     | --config is given twice
S --workdir=a --workdir=b               | --workdir is given twice
--list --list                           | --list is given twice
S --list                                | --list prints rows; give it alone
--list --workdir=w                      | --list prints rows; give it alone
--list --dry_run                        | --list prints rows; give it alone
--list --config.train.steps=4           | --list prints rows; give it alone
S --extend --start_anew                 | --extend and --start_anew contradict
S --dry_run --start_anew                | --dry_run and --start_anew contradict
S --dry_run --help                      | --dry_run and --help contradict
S --dry_run --profile                   | --dry_run and --profile contradict
A --extend                              | nothing to --extend
A --extend --dry_run                    | nothing to --extend
--list=alchemy                          | no row has the words alchemy
--list sprites alchemy                  | no row has the words alchemy
--list=nowhere/                         | no folder or file 'nowhere' to list
--list=nowhere.py                       | no folder or file 'nowhere.py' to list
--list=empty/                           | no config file in empty/
--list=file.txt/                        | none of these files can be listed
--list=broken/raises.py                 | none of these files can be listed
--list=broken/no_rows.py                | none of these files can be listed

# --- config files
--config=sprite                         | no config file 'sprite'; 'sprites'; support, vectors
--config=configs/nothing.py             | no config file 'configs/nothing.py'
--config=nothing.py                     | no config file 'nothing.py'
--config=../sprites                     | no config file '../sprites'
--config=/                              | no config file '/'
--config=.                              | no config file '.'
--config=empty                          | no config file 'empty'
--config=/dev/null                      | no config file '/dev/null'
--config=:smoke                         | no config file ''
"--config=spr ites"                     | no config file 'spr ites'; 'sprites'
"--config=sprites;rm -rf /"             | no config file
--config=s*                             | no config file 's*'
--config=${HOME}                        | no config file
"--config=[bold]x[/bold]"               | no config file '[bold]x[/bold]'
--config=LONG                           | no config file; characters
--config=file.txt                       | 'file.txt' is not a Python file
--config=broken/raises.py               | 'broken/raises.py', line 3: ZeroDivisionError
--config=broken/leaves.py               | 'broken/leaves.py', line 3: SystemExit: 7
--config=broken/syntax.py               | 'broken/syntax.py', line 2: SyntaxError
--config=broken/binary.py               | 'broken/binary.py'; null bytes
--config=broken/latin.py                | 'broken/latin.py'; SyntaxError
--config=broken/imports.py              | line 1: ModuleNotFoundError; 'no_such_module'
--config=broken/empty.py                | has no get_config
--config=broken/number.py               | has no get_config
--config=broken/no_argument.py          | TypeError: get_config() takes 0
--config=broken/none.py                 | returned NoneType, not a config
--config=broken/dict.py                 | returned dict, not a config
--config=broken/deep.py                 | RecursionError
--config=broken/no_family.py            | has no family: start from declare.base()
--config=broken/row.py                  | '../../etc' is not a name of a row; letters, digits
--config=broken/size.py                 | the size 'huge' is not one of default, smoke, fast, paper
--config=broken/value.py                | has x=None: values are numbers, words
--config=broken/lists.py                | has x=[1, 2]
--config=broken/nan.py                  | has x=nan
--config=broken/placeholder.py          | has x=None
--config=broken/unknown_family.py       | unknown family 'alchemy'; sprites, support
--config=broken/gone.py                 | the family 'badlab.gone': ModuleNotFoundError
--config=broken/failing.py              | the family 'badlab.failing': ValueError: no luck
--config=broken/leaving.py              | cannot import the family 'badlab.leaving': SystemExit
--config=broken/no_run.py               | family 'badlab.no_run' has no function run
--config=broken/no_load.py              | family 'badlab.no_load' has no function load
--config=broken/relative.py             | '..run' is not a name of a family
--config=broken/checks.py               | the flux is off
--config=broken/choices.py --config.x=2 | broken/choices.py; AttributeError

# --- rows and sizes
--config=sprites:orthogonal_stat        | unknown row 'orthogonal_stat'; 'orthogonal_star'
--config=sprites:diagonal,papr          | unknown size 'papr'; 'paper'
--config=sprites:papr                   | unknown row 'papr'; 'paper'
--config=sprites:smoke,diagonal         | the row comes before the size, diagonal,smoke
--config=sprites:smoke,fast              | has two sizes
--config=sprites:diagonal,fast,smoke,9  | unknown row
--config=sprites:../../etc/passwd       | unknown row '../../etc/passwd'
--config=sprites:/etc,smoke             | unknown row '/etc'
--config=sprites::diagonal              | unknown row ':diagonal'
"--config=sprites:demo smoke"           | unknown row 'demo smoke'
--config=vectors:mlp                    | unknown row 'mlp'
--config=kernels:addition               | unknown row 'addition'
--config=support:../demo                | unknown row '../demo'

# --- keys that do not exist
S --config.train.step=5                 | unknown config key 'train.step'; 'train.steps'
S --config.steps=5                      | 'train.steps'
S --config.trian.seeds=5                | 'train.seeds'
S --config.learning_rate=1              | 'optim.lr'
V --config.optim.learning_rate=1        | 'optim.lr'
K --config.optim.learning_rate=1        | lrs'
--config=kernels:addition_rich,smoke --config.lr=1 | 'optim.lrs'
S --config.batch_size=4                 | 'data.batch'
S --config.optimizer=adam               | unknown config key 'optimizer'
K --config.optim.optimizer=adam         | 'optim.optimiser'
S --config.train.epochs=3               | 'train.steps'
I --config.train.steps=3                | 'train.epochs'
S --config.seed=3                       | 'train.seeds'; 'data.seed'
S --config.train.seed=3                 | 'train.seeds'
V --config.model.depth=3                | 'model.n_layers'
K --config.model.n_layers=3             | 'model.depth'
S --config.hidden=8                     | 'model.component.hidden'; 'model.monolith.hidden'
I --config.model.width=8                | channels
V --config.optim.regularizer=none       | 'optim.regulariser'
A --config.train.steps=3                | unknown config key 'train.steps'
A --config.data.deltas=(0.1,)           | unknown config key 'data.deltas'
V --config.data.support=random          | 'data.supports'
S --config.data.delta=0.1               | unknown config key 'data.delta'
S --config.data.std=1                   | unknown config key 'data.std'
S --config.model.anneal=(1,2)           | unknown config key 'model.anneal'
S --config.optim.loss_weight=2          | unknown config key 'optim.loss_weight'
V --config.optim.regulariser_weight=1   | unknown config key 'optim.regulariser_weight'
I --config.model.vit.dim=8              | unknown config key 'model.vit.dim'
--config=sprites:slots_3,smoke --config.eval.n_columns=3       | unknown config key 'eval.n_columns'
--config=sprites:random_monolithic --config.model.decoder=shift | unknown config key 'model.decoder'
--config=kernels:phase --config.data.depth=3   | unknown config key 'data.depth'
--config=kernels:leak --config.data.n_grid=3   | unknown config key 'data.n_grid'
S --config.=3                           | unknown config key ''
S --config..=3                          | unknown config key '.'
S --config.train.=3                     | unknown config key 'train.'
S --config.train..steps=3               | unknown config key 'train..steps'
S --config.train=3                      | 'train' is a section; train.seeds
S --config.model.component=3            | is a section; model.component.hidden
S --config.train.steps.more=3           | unknown config key 'train.steps.more'
S --config.train.seeds.0=3              | unknown config key 'train.seeds.0'
S --config.a.b.c.d.e.f.g.h=3            | unknown config key 'a.b.c.d.e.f.g.h'
S --config.LONG=3                       | unknown config key; characters
"S" "--config.optim.lr =3"              | unknown config key 'optim.lr '; 'optim.lr'
S --config.__class__=3                  | unknown config key '__class__'
S --config.to_dict=3                    | unknown config key 'to_dict'
S --config.train.steps                  | has no value
S --config.train.steps 12               | has no value
S --config.                             | has no value
S --config.train.steps=6 --config.train.steps=6 | 'train.steps' is given twice

# --- what belongs to the row; parts
S --config.family=kernels               | 'family' belongs to the row
S --config.row=diagonal                 | 'row' belongs to the row
S --config.size=paper                   | 'size' belongs to the row
K --config.study=phase                  | 'study' belongs to the row
S --config.study=phase                  | 'study' belongs to the row
K --config.parts.addition.family=x      | 'family' belongs to the row
K --config.parts.addition.size=paper    | 'size' belongs to the row
K --config.optim.lrs=(0.1,)             | 'addition', 'equivalence'; parts.addition.optim.lrs
K --config.data.tasks=('cd_1',)         | parts.equivalence.data.tasks
K --config.model.scales=(0.1,)          | would be ignored there
K --config.optim.stop=1                 | set by part 'equivalence'; parts.addition.optim.stop
--config=kernels:addition_deep --config.model.depth=2 | parts.depth_1.model.depth
--config=kernels:cd_rich --config.optim.loss=mse      | parts.logistic.optim.loss
K --config.model.depth=2 --config.parts.addition.model.depth=1 | is set by part 'addition'
K --config.parts.addition.model.depth=1 --config.model.depth=2 | is set by part 'addition'
K --config.parts.addition=3             | 'parts.addition' is a section
K --config.parts=3                      | 'parts' is a section
K --config.parts.alchemy.optim.stop=3   | unknown config key 'parts.alchemy.optim.stop'
K --config.parts.addition.optim.lr=3    | unknown config key; lrs'
K --config.parts.addition.optim=3       | is a section
K --config.parts.addition.parts.addition.optim.lrs=3 | unknown config key
K --config.parts.addition.optim.lrs=(0.1,)     | optim.lrs has 1 learning rates for 2 model.scales
K --config.parts.addition.optim.lrs=(0.1,-1.0) | 'parts.addition.optim.lrs' must be above 0
K --config.parts.addition.data.tasks=('addition_both','cd_1') | different grids
K --config.parts.addition.data.tasks=addition_bth | 'addition_both'
K --config.parts.addition.model.scales=(1.0,1.0)  | has an item twice
K --config.parts.addition.train.steps=15 | part 'addition'; must divide train.steps=15
K --config.parts.addition.train.seeds=(1,1) | 'parts.addition.train.seeds' has an item twice
S --config.parts.x.optim.lr=1           | unknown config key 'parts.x.optim.lr'

# --- seeds
S --config.train.seeds=-1               | 'train.seeds' must be at least 0; not -1
S --config.train.seeds=(0,-3)           | must be at least 0; not -3
S --config.train.seeds=(0,0)            | has an item twice
S --config.train.seeds=()               | must not be empty
S --config.train.seeds=                 | takes values separated by commas, not ''
S --config.train.seeds=0.5              | takes a whole number, not 0.5
S --config.train.seeds=(1.0,)           | takes a whole number, not 1.0
S --config.train.seeds=4294967296       | beyond 32 bits
S --config.train.seeds=1e3              | takes a whole number, not 1000.0
S --config.train.seeds='a'              | 'train.seeds' takes
S "--config.train.seeds=('0',)"         | takes a whole number, not '0'
S --config.train.seeds=all              | takes values separated by commas, not 'all'
S --config.train.seeds=(0,(1,2))        | takes a whole number, not (1, 2)
S --config.train.seeds=[[0]]            | takes a whole number
S --config.train.seeds={0}              | takes values
S --config.train.seeds={0:1}            | takes values
S --config.train.seeds=None             | takes a whole number, not None
S --config.train.seeds=True             | takes a whole number, not True
S --config.train.seeds=(0,1             | takes values
S --config.train.seeds=range(3)         | takes values
S --config.train.seeds=0-4              | takes values
S --config.train.seeds=1j               | takes a whole number
S --config.train.seeds=LONG             | takes values; characters
S --config.train.seeds=NESTED           | must not be empty
V --config.train.seeds=4294967295       | train.seeds go up to
K --config.train.seeds=4294967295       | train.seeds go up to

# --- types
S --config.train.steps=many             | takes a whole number, not 'many'
S --config.train.steps=1.5              | takes a whole number, not '1.5'
S --config.train.steps=1e3              | takes a whole number, not '1e3'
S --config.train.steps=                 | takes a whole number, not ''
S --config.train.steps=None             | takes a whole number, not 'None'
S --config.train.steps=(4,)             | takes a whole number
S --config.train.steps=True             | takes a whole number, not 'True'
S --config.train.steps=DIGITS           | takes a whole number
S --config.train.steps=99999999999      | beyond 32 bits
S --config.optim.lr=fast                | takes a number, not 'fast'
S --config.optim.lr=1/3                 | takes a number
S --config.optim.lr=nan                 | takes a finite number, not nan
S --config.optim.lr=inf                 | takes a finite number, not inf
S --config.optim.lr=-inf                | takes a finite number
S --config.optim.lr=1e999               | takes a finite number
S --config.eval.regions=yes             | takes true or false, not 'yes'
S --config.eval.regions=2               | takes true or false
S --config.model.kinds=1                | one of compositional; not '1'
S "--config.model.kinds=[None]"         | takes a word, not None
S --config.eval.at=(3.0,)               | takes a whole number, not 3.0
S --config.eval.at=soon                 | takes values
K --config.parts.addition.model.scales=(1e999,1.0) | takes a finite number
K --config.parts.addition.model.scales=(DIGITS,1.0) | takes values

# --- ranges, choices, lengths
S --config.train.steps=0                | 'train.steps' must be at least 1
S --config.train.steps=-3               | must be at least 1
S --config.train.steps_per_call=0       | 'train.steps_per_call' must be at least 1
S --config.train.log_every=0            | 'train.log_every' must be at least 1
S --config.train.at_once=-1             | 'train.at_once' must be at least 0
S --config.eval.every=-6                | 'eval.every' must be at least 0
S --config.checkpoint.every=-1          | 'checkpoint.every' must be at least 0
S --config.data.batch=0                 | 'data.batch' must be at least 1
S --config.data.n_train=0               | 'data.n_train' must be at least 1
S --config.data.n_slots=1               | 'data.n_slots' must be at least 2
S --config.data.n_slots=99              | at most 8
S --config.data.image_size=20           | one of 16, 32, 64, 128
S --config.data.image_size=32           | cannot be built: out_shape must be (64, 64
S --config.data.seed=-1                 | 'data.seed' must be at least 0
S --config.data.support=grid            | one of random, random_gap
S --config.data.composition=alpah       | 'data.composition' must be one of add
S --config.data.distribution=cauchy     | one of uniform, normal
S --config.model.composition=addd       | 'model.composition' must be one of
S --config.model.dtype=float16          | one of float32, bfloat16
S --config.model.form=fft               | 'model.form' must be one of auto
S --config.model.decoder=resnet         | one of upsample, broadcast, shift
S --config.model.kinds=()               | 'model.kinds' must not be empty
S --config.model.kinds=both             | one of compositional, shared, monolithic
S --config.model.kinds=shared,shared    | has an item twice
S --config.model.component.hidden=0     | 'model.component.hidden' must be at least 1
S --config.model.component.channels=0   | at least 1
S --config.optim.lr=0                   | 'optim.lr' must be above 0
S --config.optim.lr=-1                  | above 0
S --config.optim.lr_every=0             | 'optim.lr_every' must be at least 1
S --config.optim.weight_decay=-1        | at least 0
S --config.optim.loss=huber             | one of mse, l1
S --config.optim.loss=                  | one of mse, l1
S --config.optim.schedule_end=-1        | at least 0
S --config.eval.n=0                     | 'eval.n' must be at least 1
S --config.eval.batch=0                 | 'eval.batch' must be at least 2
S --config.eval.n_grid=0                | at least 1
S --config.eval.n_columns=0             | at least 1
S --config.eval.n_traversal=1           | at least 2
--config=sprites:orthogonal_rgba,smoke --config.model.alpha_init=zero | one of reference, half
--config=sprites:annealed,smoke --config.model.anneal=(1,2,3)         | takes 2 items
--config=sprites:annealed,smoke --config.model.anneal=(0,2)           | above 0
--config=sprites:diagonal,smoke --config.data.delta=2.0               | at most 1
--config=sprites:diagonal,smoke --config.data.delta=0                 | above 0
--config=sprites:orthogonal_normal,smoke --config.data.std=0          | above 0
--config=sprites:gap_broadcast,smoke --config.model.broadcast.n_layers=1 | at least 2
V --config.model.hidden=0               | 'model.hidden' must be at least 1
V --config.model.n_layers=1             | at least 2
V --config.model.activation=gelu        | one of elu, relu
V --config.model.kinds=()               | must not be empty
V --config.model.kinds=cnn              | one of mlp, compositional
V --config.data.supports=corner         | one of random, diagonal, orthogonal
V --config.data.supports=()             | must not be empty
V --config.data.supports=random,random  | has an item twice
V --config.data.rule=worst              | one of reference, conditioned
V --config.data.generators=each         | one of shared, per_seed
V --config.data.sizes=(0,4)             | at least 1
V --config.data.n_parts=0               | at least 1
V --config.data.n_draws=0               | at least 1
V --config.optim.momentum=2             | at most 1
V --config.optim.regulariser=l2         | one of none, input_contrast
V --config.eval.measures=rank           | one of input_contrast
V --config.eval.measures=none           | one of input_contrast
V --config.eval.n=1                     | at least 2
V --config.train.round=-1               | at least 0
K --config.optim.loss=hinge             | one of mse, logistic
K --config.optim.optimiser=lion         | one of gd, adam
K --config.model.trained=some           | one of all, readout
K --config.model.hidden=0               | at least 1
K --config.model.depth=0                | at least 1
K --config.eval.converged=0             | above 0
I --config.model.net=mlp                | one of convnet, resnet, vit
I --config.model.dtype=int8             | one of float32, bfloat16
I --config.data.images=svhn             | one of mnist, cifar10
I --config.data.batch=0                 | at least 1
I --config.data.distances=(-1,)         | at least 0
I --config.data.distances=(0,0)         | has an item twice
I --config.data.tasks=cd_9              | unknown task 'cd_9': did you mean 'cd_
I --config.train.epochs=0               | at least 1
I --config.eval.epochs=0                | at least 1
I --config.eval.layers=()               | must not be empty
I --config.model.convnet.channels=(4,4,4,0) | at least 1
--config=kernels:phase --config.data.n_grid=2              | at least 3
--config=kernels:salience --config.data.depth=0            | at least 1
--config=kernels:dispersed --config.data.training_sets=()  | must not be empty
--config=kernels:dispersed --config.data.n_saliences=1     | at least 2
A --config.data.supports=gap            | 'data.supports' must be one of random
A --config.data.supports=()             | must not be empty
A --config.data.n_values=0              | at least 1
A --config.data.image_size=7            | one of 8, 16, 32, 64
--config=support:design,smoke --config.data.slot_counts=(1,) | at least 2
--config=support:partners,smoke --config.data.deltas=(0.8,)  | at most 0.7
--config=support:certificate,smoke --config.data.softness=0  | above 0
--config=bumps:B7,smoke --config.data.n_angles=2147483647    | at most 36000

# --- config files that declare no keys
--config=broken/bare_sprites.py             | has no key; sprites
--config=broken/bare_support.py             | has no key; support
--config=broken/bare_vectors.py             | has no key; vectors
--config=broken/bare_kernels.py             | has no key; kernels
--config=broken/bare_bumps.py             | has no key; bumps
--config=broken/bare_resistance.py             | has no key; resistance
--config=broken/bare_subnetworks.py             | has no key; subnetworks
--config=broken/bare_predict.py             | has no key; predict
--config=broken/bare_coverage.py            | has no key; coverage
--config=broken/bare_bumps.py --dry_run | has no key

# --- values that contradict each other
S --config.train.steps=13               | steps_per_call=3 must divide train.steps=13
S --config.eval.every=5                 | must divide eval.every=5
S --config.checkpoint.every=5           | must divide checkpoint.every=5
S --config.train.log_every=2            | log_every=2 must divide train.steps_per_call=3
S --config.eval.at=(4,)                 | must divide eval.at=4
S --config.eval.at=(30,)                | eval.at=30 is beyond train.steps=12
S --config.eval.at=(3,3)                | has an item twice
S --config.eval.keep=(3,)               | eval.keep=3 is not an evaluation
S --config.checkpoint.keep=(60,)        | checkpoint.keep=60 is beyond
I --config.eval.at=(7,)                 | eval.at=7 is beyond train.epochs=1
I --config.checkpoint.keep=(2,)         | checkpoint.keep=2 is beyond train.epochs=1
S --config.eval.n=25                    | eval.batch=10 must divide eval.n=25
S --config.eval.batch=40                | eval.batch=40 must divide eval.n=20
S --config.data.n_slots=3               | plane of slot 0 needs 10 coordinates
S --config.data.planes=((2,(0,0,0,0,0)),)   | slots are 0 to 1
S --config.data.planes=((0,(0,0)),)     | needs 5 coordinates
S --config.data.planes=((0,(0,0,0,0,9)),)   | must be pairs
S --config.data.planes=(0,1)            | must be pairs
S --config.data.planes=()               | must not be empty
S --config.data.support=random_gap      | 'data.gaps' must not be empty
S --config.data.support=random_gap --config.data.gaps=((0,0,1),)  | leave nearly nothing of the cube
S --config.data.support=random_gap --config.data.gaps=((99,0,1),) | latents are 0 to 9
S --config.data.support=random_gap --config.data.gaps=((0,1,0),)  | triples (latent, from, to)
--config=sprites:orthogonal_normal,smoke --config.data.mean=9     | is outside [0, 1]
--config=sprites:diagonal,smoke --config.data.delta=0.9           | between 0 and sqrt(2)/2
S --config.model.decoder=broadcast      | a monolithic model; needs model.decoder=upsample
V --config.data.sizes=(8,4)             | must rise
V --config.data.sizes=(4,4)             | must rise
V --config.data.sizes=(4,64)            | go beyond data.n_train=16
V --config.model.hidden=18              | model.hidden=18 must divide into data.n_parts=4
V --config.eval.n_measured=51           | eval.n_measured=51 must not exceed eval.n=50
I --config.eval.layers=(2,40)           | the network has no layer 40
I --config.eval.layer=99                | the network has no layer 99
I --config.model.convnet.channels=(4,)  | the network has no layer 11
I --config.data.n_pool=40               | leaves no image unseen: some classes have 40
--config=resistance:plane,smoke --config.eval.n_jacobian=0 | eval.n_jacobian=0; 1 point or more
--config=resistance:smoke --config.parts.plane.eval.n_jacobian=0 | part 'plane'; n_jacobian=0
I --config.data.tasks=context_substitution | context_substitution has 4 contexts, not two
I --config.data.n_total=5               | does not cover the 17 training combinations
--config=kernels:addition_mnist --config.data.n_pool=6000 | some classes have 5421
--config=support:opacity,smoke          | no sprites run at 'runs/sprites/orthogonal_rgba_cured'
--config=support:certificate,smoke --config.data.run=nowhere      | no sprites run at 'nowhere'
--config=support:certificate,smoke --config.data.run=             | no sprites run at
--config=support:certificate,smoke --config.data.run=runs/other   | holds a run of kernels
--config=support:certificate,smoke --config.data.run=runs/torn    | cannot read 'runs/torn/
--config=support:predict,smoke --config.data.record=empty         | prediction needs three
--config=support:predict,smoke --config.data.record=strange       | json that is not a recorded run

# --- workdirs
A --workdir=file.txt                    | --workdir=file.txt is a file
A --workdir=file.txt/run                | cannot create workdir 'file.txt/run': Not a directory
A --workdir=/proc/nothing               | cannot create workdir '/proc/nothing'
A --workdir=/dev/null/run               | cannot create workdir
A --workdir=loop/run                    | cannot create workdir
A --workdir=LONG                        | File name too long
A --workdir=foreign                     | 'foreign/config.json' is not a run's config.json
A --workdir=many                        | holds runs in its sub-folders
A --workdir=runs/torn                   | cannot read 'runs/torn/config.json'; --start_anew
A --workdir=runs/other                  | another config; family: kernels -> support
A --workdir=runs/other --extend         | another config; use a new --workdir
A --workdir=runs/other --dry_run        | another config
"""


def commands():
    short = {"S": "sprites:smoke", "V": "vectors:smoke", "K": "kernels:smoke", "A": "support:smoke",
             "I": "kernels:addition_mnist,smoke"}  # fmt: skip
    for line in TABLE.splitlines():
        if line.startswith("# ---") or not line.strip():
            continue
        text, _, words = line.rpartition(" | ") if " | " in line else line.partition("|")
        arguments = [
            f"--config={short[word]}" if word in short else word
            for word in shlex.split(text, posix='"' in text)
        ]
        yield pytest.param(arguments, words.split(";"), id=text.strip()[:60])


LONG = {"LONG": "x" * 3000, "NESTED": "(" * 150 + ")" * 150, "DIGITS": "9" * 5000}

BASE = "from cgjax.config.declare import base\n\ndef get_config(arg=''):\n    config = base({!r})\n"
FILES = {
    "file.txt": "no Python",
    "broken/raises.py": "def get_config(arg=''):\n    one = 1\n    return one / 0\n",
    "broken/leaves.py": "import sys\n\nsys.exit(7)\n",
    "broken/syntax.py": "def get_config(arg=''):\n    return (\n",
    "broken/binary.py": "x = 1\0\n",
    "broken/latin.py": b"x = '\xff\xfe'\n",
    "broken/imports.py": "import no_such_module\n",
    "broken/empty.py": "",
    "broken/number.py": "get_config = 3\n",
    "broken/no_argument.py": "def get_config():\n    return None\n",
    "broken/none.py": "def get_config(arg=''):\n    pass\n",
    "broken/dict.py": "def get_config(arg=''):\n    return {'family': 'sprites'}\n",
    "broken/deep.py": "def get_config(arg=''):\n    return get_config(arg)\n",
    "broken/no_family.py": "import ml_collections\n\ndef get_config(arg=''):\n"
    "    return ml_collections.ConfigDict({'row': 'a', 'size': 'smoke'})\n",
    "broken/row.py": BASE.format("sprites") + "    config.row = '../../etc'\n    return config\n",
    "broken/size.py": BASE.format("sprites") + "    config.size = 'huge'\n    return config\n",
    "broken/no_rows.py": BASE.format("sprites") + "    return config\n",
    "strange/a-fast.json": "{}",
    "foreign/config.json": '{"model_type": "bert"}',
    "runs/torn/config.json": '{"family": "spr',
    "runs/torn/results.json": "{}",
    "many/one/checkpoints/seeds_0/3/meta": "",
    "runs/other/config.json": '{"family": "kernels", "row": "leak", "size": "default"}',
    "runs/other/results.json": "{}",
    "badlab/failing.py": "raise ValueError('no luck')\n",
    "badlab/leaving.py": "raise SystemExit\n",
    "badlab/no_run.py": "def load():\n    pass\n",
    "badlab/no_load.py": "def run():\n    pass\n",
    "badlab/checks.py": "from cgjax.core.errors import BadInput\n\ndef run():\n    pass\n\n"
    "load = run\n\ndef check(config):\n    raise BadInput('the flux\\nis off')\n",
}  # fmt: skip
FAMILIES = {"unknown_family": "alchemy", "relative": "..run"} | {
    name: f"badlab.{name}" for name in ("gone", "failing", "leaving", "no_run", "no_load", "checks")
}
VALUES = {"value": "None", "lists": "[1, 2]", "nan": "float('nan')",
          "placeholder": "__import__('ml_collections').config_dict.placeholder(int)",
          "choices": "1"}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the commands are typed: broken config files, strange folders."""
    folder = tmp_path_factory.mktemp("here")
    files = dict(FILES)
    for name, family in FAMILIES.items():
        files[f"broken/{name}.py"] = BASE.format(family) + "    return config\n"
    for family in experiments.FAMILIES:
        files[f"broken/bare_{family}.py"] = BASE.format(family) + "    return config\n"
    for name, value in VALUES.items():
        text = BASE.format("sprites") + "    with config.unlocked():\n        config.x = " + value
        files[f"broken/{name}.py"] = text + "\n    return config\n"
    files["broken/choices.py"] += "\nCHOICES = ('x',)\n"
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "empty").mkdir()
    (folder / "loop").symlink_to(folder / "loop")
    return folder


def snapshot(folder: pathlib.Path) -> dict:
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("arguments, words", commands())
def test_bad_command(arguments, words, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python's own, beside imported modules
    for name, text in LONG.items():
        arguments = [word.replace(name, text) for word in arguments]
    before = snapshot(folder)
    code = main(arguments)
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert code == 2 and len(lines) == 1, captured.err
    assert lines[0].startswith("cgjax: ") and len(lines[0]) < 900
    for word in words:
        assert word.strip() in lines[0]
    assert snapshot(folder) == before


def test_there_are_enough():
    assert len(list(commands())) >= 200


def test_without_a_home_directory(tmp_path, monkeypatch, capsys):
    for name in ("HOME", "CGJAX_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def nobody(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(pathlib.Path, "home", nobody)
    monkeypatch.setattr(pathlib.Path, "expanduser", nobody)
    monkeypatch.chdir(tmp_path)
    assert main(["--config=sprites:smoke", "--workdir=~/run"]) == 2
    assert "there is no home directory" in capsys.readouterr().err
    assert not os.listdir(tmp_path)
