# Makes as many objects as it is told, of which a tenth stays. Prints what Ruby's own statistics say
# of those that were made and freed since the extension was loaded.
GC.start
GC.disable
require ARGV[0]
made, freed = GC.stat(:total_allocated_objects), GC.stat(:total_freed_objects)
keep = []
ARGV[1].to_i.times { |i| object = Object.new; keep << object if i % 10 == 0 }
GC.enable
GC.start
puts GC.stat(:total_allocated_objects) - made, GC.stat(:total_freed_objects) - freed
STDOUT.flush
Process.exit!(0)
