# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Jobs of everyday programs that come to the same wherever they are done."""

PYTHON = "/usr/bin/python3"

#: Name of the job: what it does in a folder of its own. Files that it gives an old time keep that to the nanosecond.
JOBS = {
    "zip": """
        mkdir -p tree/sub; seq 5000 > tree/numbers; head -c 70000 /dev/zero > tree/sub/zeros; echo 1 > 'tree/a b'
        ln -s ../numbers tree/sub/link; chmod 750 tree/sub; chmod 640 tree/numbers
        find tree -exec touch -h -d '2001-02-03 04:05:06' {} +
        find tree | sort | zip -qXy a.zip -@; zip -qXy a.zip -d 'tree/a b'; echo more >> tree/numbers
        touch -d '2002-02-03 04:05:06' tree/numbers; zip -qXuy a.zip tree/numbers; unzip -tq a.zip; unzip -q a.zip -d out; unzip -qo a.zip -d out
        unzip -Z1 a.zip | sort; (cd out; find . -printf '%P %y %m %l\\n' | sort)
    """,
    "dpkg-deb": """
        mkdir -p package/DEBIAN package/usr/bin package/usr/share/doc/x package/etc/x
        printf 'Package: x\\nVersion: 1\\nArchitecture: all\\nMaintainer: A <a@example.org>\\nDescription: x\\n' \\
            > package/DEBIAN/control
        printf '#!/bin/sh\\nexit 0\\n' > package/DEBIAN/postinst; chmod 755 package/DEBIAN/postinst
        install -m 4755 /bin/true package/usr/bin/suid; ln -s suid package/usr/bin/also; seq 999 > package/etc/x/conf
        seq 20000 | gzip -n > package/usr/share/doc/x/changelog.gz; chmod 600 package/etc/x/conf
        find package -exec touch -h -d '2001-02-03 04:05:06' {} +
        dpkg-deb --root-owner-group -Zgzip -b package x.deb > /dev/null; sha256sum x.deb; dpkg-deb -c x.deb
        dpkg-deb -x x.deb out; dpkg-deb -R x.deb raw; out/usr/bin/suid; dpkg-deb -I x.deb
    """,
    "tar": """
        mkdir -p tree/sub/empty; seq 5000 > tree/numbers; ln -s nowhere tree/dangling; mkfifo -m 620 tree/fifo
        printf x > "tree/$(printf 'n%.0s' $(seq 200))"; printf x > 'tree/ü ä'; truncate -s 300000 tree/sub/sparse
        printf end >> tree/sub/sparse; chmod 1770 tree/sub; chmod 6751 tree/numbers; [ "$(id -u)" != 0 ] || chown 1234:5678 tree/numbers
        find tree -exec touch -h -d '2001-02-03 04:05:06.123456789' {} +
        flags='--sort=name --numeric-owner --format=posix --pax-option=delete=atime,delete=ctime'
        tar $flags -cf a.tar tree; sha256sum a.tar; tar $flags -df a.tar
        mkdir out; tar -C out -xpf a.tar; tar -C out $flags -cSf - tree | cmp - a.tar
        echo late > tree/late; touch -d 2002-02-02 tree/late; tar $flags -rf a.tar tree/late; tar --delete -f a.tar tree/fifo
        tar -C out -xpf a.tar --skip-old-files; tar -czf a.tgz -C out tree; tar -tzf a.tgz | sort; rm a.tgz
        tar -cSf s.tar tree/sub; mkdir s; tar -C s -xpf s.tar; cmp s/tree/sub/sparse tree/sub/sparse; rm s.tar
        find out -printf '%P %y %m %U %G %l %T@\\n' | grep -v ' d ' | sort
    """,
    "rsync": """
        rsync() { command rsync "$@" | sort; }
        mkdir -p one/sub/deep; seq 20000 > one/numbers; seq 500 > one/sub/list; ln -s ../numbers one/sub/link
        head -c 200000 /dev/zero > one/zeros; echo x > one/sub/deep/x; chmod 640 one/zeros; [ "$(id -u)" != 0 ] || chown 1234:5678 one/numbers
        find one -exec touch -h -d '2001-02-03 04:05:06.123456789' {} +
        cp -a one two; seq 20001 20100 >> two/numbers; sed -i s/7/seven/ two/sub/list; rm two/zeros; chmod 750 two/sub
        mv two/sub/deep two/moved; mkdir two/empty; find two -exec touch -h -d '2002-02-03 04:05:06.5' {} +
        rsync -ai one/ plain/; rsync -ai one/ plain/; rsync -ai --delete two/ plain/; rsync -ain --delete -c two/ plain/
        rsync -a one/ inplace/; rsync -ai --inplace --no-whole-file two/ inplace/; rsync -ai --existing -c one/ inplace/
        rsync -a one/ append/; rsync -ai --append two/numbers append/; rsync -ai --append-verify two/ append/
        rsync -ai -c --ignore-times two/ append/; rsync -ai --delete-after --exclude=/moved two/ append/
        rsync -a one/ kept/; rsync -ai --backup --backup-dir=../old --delete two/ kept/; rsync -ai --suffix=~ -b one/ kept/
        rsync -ai --partial-dir=.part --delay-updates two/ kept/; rsync -aiS --remove-source-files one/ sparse/; find one
        rsync -ai --preallocate two/ taken/; rsync -ai --fsync two/ synced/; rsync -ai --temp-dir=$HERE/taken two/ there/
    """,
    "copies": """
        mkdir tree; seq 30000 > tree/numbers; truncate -s 2M tree/holes; printf end >> tree/holes
        ln -s numbers tree/link; chmod 604 tree/numbers; touch -d '2001-02-03 04:05:06.7' tree/numbers tree/holes
        cp --reflink=auto tree/numbers lightly; cp --reflink=auto --sparse=always tree/holes sparsely
        cp -a --reflink=auto tree copy; cp -u tree/numbers copy/numbers; cp -b tree/holes copy/numbers; ls copy
        cp --reflink=never --remove-destination tree/numbers copy/link; cp -rL tree followed; cp -P tree/link .
        install -D -m 751 tree/numbers deep/er/installed; mv -b tree/holes copy/holes; mv -n lightly copy/numbers
        ln -sfn copy link; ln -sfn tree link; readlink link; mv -T copy moved; cmp moved/holes sparsely
    """,
    "streams": """
        seq 2000 > text; sed -i 's/^1/one/' text; sed -i.orig -e '$a end' text; sed -n '$p' text
        split -l 300 text part.; cat part.* | cmp - text; sort -r -o text text; head -n 3 text
        dd if=text of=text conv=notrunc bs=100 skip=3 seek=1 count=5 status=none; sha256sum text
        diff -u --label a --label b text.orig text > patch || true; cp text.orig again; patch -s again < patch; cmp again text
        for i in $(seq 50); do echo $i >> log; done; truncate -s -20 log; tee -a log < part.aa > /dev/null; wc log
        gzip -nk text; gunzip -c text.gz | cmp - text; xz -k part.aa; xz -d < part.aa.xz | cmp - part.aa
    """,
    "vim": """
        edit() { vim -Nu NONE -i NONE -es -c "set backupskip= directory=. $2" -c 'normal Gomore' -c wq "$1" || true; }
        for how in yes no auto breaksymlink; do
            for keep in 'nobackup writebackup' 'nobackup nowritebackup' backup; do
                name="$how-${keep// /-}"; echo first > "$name"; chmod 640 "$name"; edit "$name" "$keep backupcopy=$how"
            done
        done
        echo target > behind; ln -s behind link; edit link 'backupcopy=auto'; edit new ''; ls -A; cat -- *
        test "$(grep -l more -- * | wc -l)" = 15
    """,
    "removing": """
        for i in $(seq 20); do mkdir -p t/d$((i % 9))/e; echo $i > t/d$((i % 9))/e/f$i; ln -s f$i t/d$((i % 9))/e/l$i; done
        cp -r t u; cp -r t v; cp -r t w; find t -name 'f*' -size -4c -delete; find t | wc -l; find u -delete
        find v -type l -exec rm {} +; rm -rf v/d1 v/d2; find w -depth -type d -empty -delete; rm -rf w; ls
        find t -type l ! -xtype f -print | sort | head -n 3; find t v -type f | sort | xargs sha256sum | sha256sum
        mkdir again; rmdir again; mkdir again; touch again/x; rm -r again; rm -f nothing
    """,
    "git": """
        git init -q -b main r; cd r; git config pack.threads 1
        for i in $(seq 6); do
            mkdir -p d$((i % 3)); seq $i $((i * 50)) > d$((i % 3))/f$i; echo $i >> log; git add -A; git commit -qm $i
        done
        git mv d1/f1 d2/moved; git rm -q d0/f3; ln -s log link; chmod +x log; git add -A; git commit -qm moves
        git checkout -q -b side HEAD~3; echo side > d0/side; git add -A; git commit -qm side; git checkout -q main
        git worktree add -q ../tree side; (cd ../tree; seq 9 > in-tree; git add -A; git commit -qm tree)
        git merge -q -m merge side; echo dirty >> log; git stash -q; git stash pop -q; git checkout -q -- log
        git rebase -q HEAD~2; git tag -a -m tag one; git worktree list | sed "s|$HERE|HERE|"; git worktree remove ../tree
        git gc -q --prune=now; git fsck --strict --no-dangling; git clone -q . ../clone; git -C ../clone pull -q
        git clone -q --bare . ../bare.git; git -C ../bare.git repack -qad; git -C ../clone push -q ../bare.git HEAD:pushed
        git log --graph --format='%h %s' --all; git ls-files -s; git status --porcelain; git -C ../clone status -s
        git cat-file --batch-check --batch-all-objects; git -C ../bare.git rev-parse pushed
    """,
    "make": r"""
        mkdir src; cd src; printf 'int answer(void);\n' > answer.h
        printf '#include "answer.h"\nint answer(void) { return 42; }\n' > answer.c
        printf '#include <stdio.h>\n#include "answer.h"\nint main(void) { printf("%%d\\n", answer()); }\n' > main.c
        printf '%s\n' 'all: static shared' 'lib.a: answer.o' '	ar rcsD $@ $^' 'lib.so: answer.o' '	gcc -shared -o $@ $^' \
            'static: main.o lib.a' '	gcc -o $@ $^' 'shared: main.o lib.so' "	gcc -Wl,-rpath,'\$\$ORIGIN' -o \$@ \$^" \
            '%.o: %.c' '	gcc -fPIC -MMD -c -o $@ $<' '-include *.d' 'clean:' '	rm -f *.o *.d *.a *.so static shared' > Makefile
        make --no-print-directory; ./static; ./shared; make --no-print-directory; sed -i s/42/43/ answer.c
        make --no-print-directory; ./static; ./shared; touch answer.h; make --no-print-directory
        make --no-print-directory -q; echo up to date; make -s clean; ls; make --no-print-directory -s -j 4; ./shared
    """,
    "venv": f"""
        {PYTHON} -m venv --without-pip v; v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'
        site=$(v/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); echo "$site" | sed "s|$HERE|HERE|"
        mkdir "$site/module"; echo 'answer = 42' > "$site/module/__init__.py"; echo 'import module' > "$site/x.pth"
        env -u PYTHONDONTWRITEBYTECODE v/bin/python -c 'import module; print(module.answer)'; ls "$site/module/__pycache__"
        v/bin/python -m compileall -q --invalidation-mode unchecked-hash "$site"; . v/bin/activate; python -c 'import module'
        cp -a v copy; {PYTHON} -m venv --without-pip --upgrade v; {PYTHON} -m venv --without-pip --clear --copies v; ls v
    """,
}

#: What of a job's tree cannot be the same. Indexes hold inode numbers, .pyc files times and paths in a packed form.
APART = {"git": r"/index$", "venv": r"\.pyc$"}
