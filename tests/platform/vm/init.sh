#!/bin/busybox sh
# The first process of an emulated machine: modules, the host's folders (for reading) below a root
# in memory, the job in there; its status on the console; off.
/bin/busybox --install -s /bin
export PATH=/bin
say() { echo "@@ $* $(cut -d' ' -f1 /proc/uptime)"; }

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /modules/*; do
	insmod "$module" || echo "cannot load $module"
done
mount -t tmpfs -o mode=755 root /new
cd /new || exit
mkdir -p proc sys dev tmp etc run root pm
chmod 1777 tmp
number=0
while read -r folder; do
	mkdir -p ".$folder"
	mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 \
		"share$number" ".$folder"
	number=$((number + 1))
done </shares
for name in bin sbin lib lib64; do
	ln -s "usr/$name" "$name"
done
for name in proc sys dev; do
	mount --move "/$name" "$name"
done
mkdir -p dev/shm
mount -t tmpfs tmpfs dev/shm
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n' >etc/passwd
printf 'root:x:0:\nnogroup:x:65534:\n' >etc/group
/bin/busybox cp /job tmp/job
PROC=proc/uptime
echo "@@ booted $(/bin/busybox cut -d' ' -f1 $PROC)"
HOME=/tmp PATH=/usr/bin:/usr/sbin /bin/busybox chroot . /bin/sh /tmp/job <dev/null
status=$?
echo "@@ status $status after $(/bin/busybox cut -d' ' -f1 $PROC) s of the guest"
/bin/busybox poweroff -f
