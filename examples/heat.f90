! memsight in Fortran: heat spreads over a plate; the steps are a region, the plates have names.
program heat
  use, intrinsic :: iso_fortran_env, only: real64
  use memsight
  implicit none
  integer, parameter :: n = 400, n_steps = 200
  real(real64), allocatable, target :: plate(:, :), next(:, :)
  integer :: i

  allocate (plate(n, n), next(n, n))
  call memsight_name_range(c_loc(plate), &
    size(plate, kind=c_size_t) * storage_size(plate) / 8, 'plate')
  call memsight_name_range(c_loc(next), &
    size(next, kind=c_size_t) * storage_size(next) / 8, 'next plate')
  plate = 0
  plate(1, :) = 100
  next = plate
  call memsight_mark('initialised')

  call memsight_region_push('spread')
  do i = 1, n_steps
    call memsight_region_push('step')
    next(2:n - 1, 2:n - 1) = 0.25_real64 * (plate(1:n - 2, 2:n - 1) + plate(3:n, 2:n - 1) &
                                            + plate(2:n - 1, 1:n - 2) + plate(2:n - 1, 3:n))
    plate(2:n - 1, 2:n - 1) = next(2:n - 1, 2:n - 1)
    call memsight_region_pop('step')
  end do
  call memsight_region_pop('spread')

  print '(a, i0, a, f0.3)', 'after ', n_steps, ' steps the second row has ', sum(plate(2, :)) / n
end program heat
