! growth.f90 - an array that grows as Fortran programs do it: allocate a larger one, copy, deallocate.
! 16 steps to 1,600,000 elements, 12.8 MB; 96 MB copied on the way, and no call of realloc.
program growth
  implicit none
  real(8), allocatable :: a(:), larger(:)
  integer, parameter :: step = 100000
  integer :: n
  allocate (a(step))
  a = 1
  do n = 2, 16
    allocate (larger(n*step))
    larger(1:(n - 1)*step) = a
    larger((n - 1)*step + 1:) = n
    deallocate (a)
    call move_alloc(larger, a)
  end do
  print '(f0.0)', sum(a)
end program growth
