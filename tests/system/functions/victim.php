<?php
// Objects, arrays, strings small and huge, some of which end; prints what PHP itself counts.
class Thing { public $text; public $numbers; function __construct($i) {
	$this->text = str_repeat("x", $i % 5000); $this->numbers = range(0, $i % 100); } }
$kept = [];
for ($i = 0; $i < 3000; $i++) {
	$thing = new Thing($i);
	if ($i % 3 == 0) $kept["thing $i"] = $thing;
}
$huge = str_repeat("y", 3000000); $large = str_repeat("z", 300000);
sort($kept);
$packed = serialize($kept);
$copy = unserialize($packed);
$parts = explode("x", substr($packed, 0, 20000));
unset($packed, $copy);
$self = posix_getpid();
echo " "; // the first output takes memory for headers
$used = memory_get_usage();
echo $used, "\n";
posix_kill($self, 9);
