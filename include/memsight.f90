! What a Fortran program can tell its recorder; memsight.h says what each does. Compile this file
! with the program and link with libmemsight.a (pkg-config memsight says where both are).
!
!     use memsight
!     real, allocatable, target :: field(:, :)
!     call memsight_region_push('solve')
!     call memsight_name_range(c_loc(field), &
!       size(field, kind=c_size_t) * storage_size(field) / 8, 'field')
!     call memsight_region_pop('solve')
module memsight
  use, intrinsic :: iso_c_binding, only: c_char, c_loc, c_null_char, c_ptr, c_size_t
  implicit none
  private
  public :: memsight_region_push, memsight_region_pop, memsight_mark, memsight_name_range
  public :: memsight_pause, memsight_resume, memsight_pause_thread, memsight_resume_thread
  public :: memsight_collect_push, memsight_collect_pop
  public :: memsight_block, memsight_block_end, memsight_pool_reset
  public :: c_loc, c_size_t

  interface
    subroutine link_region_push(name) bind(C, name='memsight_link_region_push')
      import :: c_char
      character(kind=c_char), intent(in) :: name(*)
    end subroutine

    subroutine link_region_pop(name) bind(C, name='memsight_link_region_pop')
      import :: c_char
      character(kind=c_char), intent(in) :: name(*)
    end subroutine

    subroutine link_mark(name) bind(C, name='memsight_link_mark')
      import :: c_char
      character(kind=c_char), intent(in) :: name(*)
    end subroutine

    subroutine link_name_range(object, size, name) bind(C, name='memsight_link_name_range')
      import :: c_char, c_ptr, c_size_t
      type(c_ptr), value :: object
      integer(c_size_t), value :: size
      character(kind=c_char), intent(in) :: name(*)
    end subroutine

    subroutine memsight_block(pointer, size, pool) bind(C, name='memsight_link_block')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: pointer
      integer(c_size_t), value :: size
      type(c_ptr), value :: pool
    end subroutine

    subroutine memsight_block_end(pointer) bind(C, name='memsight_link_block_end')
      import :: c_ptr
      type(c_ptr), value :: pointer
    end subroutine

    subroutine memsight_pool_reset(pool) bind(C, name='memsight_link_pool_reset')
      import :: c_ptr
      type(c_ptr), value :: pool
    end subroutine

    subroutine link_collect_push(classes) bind(C, name='memsight_link_collect_push')
      import :: c_char
      character(kind=c_char), intent(in) :: classes(*)
    end subroutine

    subroutine memsight_collect_pop() bind(C, name='memsight_link_collect_pop')
    end subroutine

    subroutine memsight_pause() bind(C, name='memsight_link_pause')
    end subroutine

    subroutine memsight_resume() bind(C, name='memsight_link_resume')
    end subroutine

    subroutine memsight_pause_thread() bind(C, name='memsight_link_pause_thread')
    end subroutine

    subroutine memsight_resume_thread() bind(C, name='memsight_link_resume_thread')
    end subroutine
  end interface

  integer, parameter :: max_bytes = 255

contains

  ! As C has it. Not by trim() and //, which allocate.
  pure function c_name(name) result(text)
    character(len=*), intent(in) :: name
    character(kind=c_char) :: text(max_bytes + 1)
    integer :: i, n

    n = min(len_trim(name), max_bytes)
    do i = 1, n
      text(i) = name(i:i)
    end do
    text(n + 1) = c_null_char
  end function

  subroutine memsight_region_push(name)
    character(len=*), intent(in) :: name
    call link_region_push(c_name(name))
  end subroutine

  subroutine memsight_region_pop(name)
    character(len=*), intent(in) :: name
    call link_region_pop(c_name(name))
  end subroutine

  subroutine memsight_mark(name)
    character(len=*), intent(in) :: name
    call link_mark(c_name(name))
  end subroutine

  subroutine memsight_name_range(object, size, name)
    type(c_ptr), intent(in) :: object
    integer(c_size_t), intent(in) :: size
    character(len=*), intent(in) :: name
    call link_name_range(object, size, c_name(name))
  end subroutine

  subroutine memsight_collect_push(classes)
    character(len=*), intent(in) :: classes
    call link_collect_push(c_name(classes))
  end subroutine
end module memsight
