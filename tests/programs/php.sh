#!/bin/bash
# php.sh - PHP, which opens its extensions with RTLD_DEEPBIND: arrays, strings, patterns, and what its
# extensions do with files, encodings and archives.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need php php

php_story() {
    local n=200000
    [ "$SCALE" != small ] || n=2000
    cat >story.php <<'END'
<?php
$n = (int)$argv[1];
$x = 42;
function next_number() { global $x; return $x = ($x * 1103515245 + 12345) % 2147483648; }
$words = [];
for ($i = 0; $i < $n; $i++) $words[] = str_repeat(chr(97 + next_number() % 26), 1 + next_number() % 200);
for ($i = 0; $i < $n; $i++) $words[next_number() % $n] .= "-$i";
sort($words);
echo md5(implode(",", $words)), " ", count(array_unique($words)), "\n";
preg_match_all('/([a-m]+)-(\d+)/', implode(" ", $words), $found);
echo count($found[1]), " ", md5(serialize($found[2])), "\n";
$json = json_encode($words);
echo strlen($json), " ", json_decode($json, true) === $words ? "same" : "other", "\n";
# Extensions: iconv, ctype, tokenizer, fileinfo, phar; each a library of its own.
echo iconv("UTF-8", "UTF-16LE", str_repeat("\u{e9}x", 1000)) === str_repeat("\xe9\0x\0", 1000) ? "iconv\n" : "no\n";
echo count(array_filter($words, 'ctype_alpha')), "\n";
echo count(token_get_all(file_get_contents(__FILE__))), "\n";
echo (new finfo(FILEINFO_MIME_TYPE))->file(__FILE__), "\n";
$tar = new PharData("a.tar");
for ($i = 0; $i < 200; $i++) $tar->addFromString("f$i", $words[$i]);
unset($tar);
$sum = 0;
foreach (new PharData("a.tar") as $f) $sum += strlen(file_get_contents($f->getPathname()));
echo "archive $sum\n";
END
    php -d memory_limit=-1 story.php "$n"
    rm -f a.tar
}

both php php_story
proved php php_story php
