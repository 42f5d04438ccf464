! mpi_gather.f90 - the imbalance that per-rank memory profiles are for: every rank works on a vector
! of its own, and the first gathers all of them "to write a file", so that its high-water mark grows
! with the number of ranks while the others' does not. Prints the sum of what was gathered.
! Usage: mpi_gather [NUMBERS PER RANK]
program gather
    use mpi
    implicit none
    integer :: rank, ranks, error, n
    character(len=32) :: argument
    real(8) :: total

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    n = 250000
    if (command_argument_count() > 0) then
        call get_command_argument(1, argument)
        read (argument, *) n
    end if
    total = work(n)
    if (rank == 0) print '(a,f0.1)', 'total ', total
    call MPI_Finalize(error)

contains

    real(8) function work(n)
        integer, intent(in) :: n
        real(8), allocatable :: own(:)
        integer :: i
        allocate (own(n))
        do i = 1, n
            own(i) = mod(i, 10) + rank
        end do
        work = collect(own, n)
        deallocate (own)
    end function

    ! One rank holds everything at once.
    real(8) function collect(own, n)
        integer, intent(in) :: n
        real(8), intent(in) :: own(n)
        real(8), allocatable :: all(:)
        if (rank == 0) then
            allocate (all(n * ranks))
        else
            allocate (all(1))
        end if
        call MPI_Gather(own, n, MPI_DOUBLE_PRECISION, all, n, MPI_DOUBLE_PRECISION, 0, &
                        MPI_COMM_WORLD, error)
        collect = sum(all)
        deallocate (all)
    end function

end program
