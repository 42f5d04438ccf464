#!/bin/bash
# perl.sh - perl sorting, hashing, matching, evaluating and forking.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need perl perl

perl_story() {
    local n=120000
    [ "$SCALE" = full ] || n=40000
    [ "$SCALE" != small ] || n=500
    # Hash order is random by design in perl; everything printed is sorted or summed.
    perl -w - "$n" <<'END'
use strict;
my $n = shift;
my $x = 42;
sub next_number { $x = ($x * 1103515245 + 12345) % 2147483648; return $x; }
my (@words, %count, %by_length);
for my $i (1 .. $n) {
    my $w = join '', map { chr(97 + next_number() % 26) } 1 .. 3 + next_number() % 12;
    push @words, $w;
    $count{$w}++;
    push @{ $by_length{length $w} }, $w;
}
my $sum = 0;
my $place = 0;
for my $w (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count) {
    $place++;
    $sum = ($sum * 31 + length($w) * $place) % 1000000007;
}
print "sorted $place words, sum $sum\n";
for my $l (sort { $a <=> $b } keys %by_length) {
    my @s = sort @{ $by_length{$l} };
    print "$l: ", scalar @s, " $s[0] $s[-1]\n";
}
my $text = join ' ', @words;
my %pairs;
$pairs{"$1$2"}++ while $text =~ /\b([a-m])\w*?([n-z])\b/g;
print "$_ $pairs{$_}\n" for (sort { $pairs{$b} <=> $pairs{$a} || $a cmp $b } keys %pairs)[0 .. 9];
(my $changed = $text) =~ s/([aeiou])(\w)/\U$2\E$1/g;
my $hash = 0;
$hash = ($hash * 33 + ord) % 4294967291 for split //, substr($changed, 0, 100000);
print "changed ", length $changed, " $hash\n";
my $grow = '';
$grow .= chr(33 + $_ % 90) x ($_ % 50) for 1 .. $n;
print "grew to ", length $grow, "\n";
my $made = 0;
for my $i (1 .. $n / 100) {
    my $f = eval "sub { my \$y = shift; return \$y * $i + length('x' x \$y) }" or die $@;
    $made = ($made + $f->($i)) % 1000003;
}
print "evaluated $made\n";
my @kids;
for my $k (1 .. 8) {
    pipe(my $r, my $w) or die;
    my $pid = fork // die;
    if (!$pid) {
        close $r;
        my %own = map { $_ => [ ($words[$_ * $k % @words]) x ($_ % 17) ] } 1 .. $n / 20;
        delete $own{$_} for grep { $_ % 3 } keys %own;
        %count = ();
        my $s = 0;
        $s += length join '', @$_ for values %own;
        print $w "kid $k: $s\n";
        close $w;
        exit $k;
    }
    close $w;
    push @kids, [ $pid, $r ];
}
for (@kids) {
    my ($pid, $r) = @$_;
    print readline $r;
    waitpid $pid, 0;
    print "status ", $? >> 8, "\n";
}
print "lines of a child program: ", scalar(my @l = `perl -e 'print "\$_\\n" for 1..1000'`), "\n";
exit 7 if $n < 0;
END
    perl -MData::Dumper -MStorable=dclone -e '
        $Data::Dumper::Sortkeys = 1;
        my $deep = [1]; $deep = [ $deep, { a => $deep } ] for 1 .. 12;
        my $copy = dclone($deep); my $s = Dumper($copy); print length($s), "\n";
        die "as asked\n"' || echo "perl says $?"
}

both perl perl_story
proved perl perl_story perl
